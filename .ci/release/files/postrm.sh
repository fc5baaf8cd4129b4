#!/bin/sh
# After removing. The state in /var/lib/handrail stays: it is the site.
set -e
case "${1:-remove}" in
upgrade|failed-upgrade|abort-*|disappear|1) exit 0 ;;
esac
if [ -e /etc/apparmor.d/handrail ]; then
	if command -v apparmor_parser >/dev/null 2>&1 && [ -d /sys/kernel/security/apparmor ]; then
		apparmor_parser --remove /etc/apparmor.d/handrail || true
	fi
	rm -f /etc/apparmor.d/handrail
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
if [ -d /var/lib/handrail ]; then
	echo "handrail: the site's state is kept in /var/lib/handrail; remove it by hand if nobody needs it" >&2
fi
