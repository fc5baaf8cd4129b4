#!/bin/sh
# After installing and after an upgrade. Neither starts a gateway that nobody asked for: the
# administrator enables it. One that runs goes on with the new program.
set -e
if [ -d /etc/apparmor.d/abi ] && [ -e /etc/apparmor.d/abi/4.0 ]; then
	# Ubuntu takes namespaces of users from programs without a profile.
	[ -e /etc/apparmor.d/handrail ] || cp /usr/share/handrail/apparmor /etc/apparmor.d/handrail
	if command -v apparmor_parser >/dev/null 2>&1 && [ -d /sys/kernel/security/apparmor ]; then
		apparmor_parser --replace /etc/apparmor.d/handrail || echo "handrail: AppArmor did not take /etc/apparmor.d/handrail" >&2
	fi
fi
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers handrail.conf || true
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart handrail-gateway.service || true
fi
