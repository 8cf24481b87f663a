#!/bin/sh
# Takes nodeadmit out of the engines' configuration before its files go. If that
# can't be done the removal ends here, with all files in place, so that pods go on
# starting.
set -e

# dpkg says "remove", rpm how many are left: 0. An upgrade changes nothing.
case "$1" in
remove | 0)
	if command -v nodeadmit >/dev/null; then
		nodeadmit uninstall
	fi
	if [ -d /run/systemd/system ]; then
		systemctl disable --now nodeadmit-evaluator.socket nodeadmit-evaluator.service || :
	fi
	;;
esac
