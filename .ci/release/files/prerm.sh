#!/bin/sh
# Before removing. An upgrade stops nothing: dpkg says "upgrade", rpm 1.
set -e
case "${1:-remove}" in
upgrade|failed-upgrade|deconfigure|1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now handrail-gateway.service || true
elif [ -L /etc/systemd/system/multi-user.target.wants/handrail-gateway.service ]; then
	rm -f /etc/systemd/system/multi-user.target.wants/handrail-gateway.service
fi
