#!/bin/sh
# Links in /usr/lib/nodeadmit/runtimes stay while pods may need them: they lead to
# the real runtimes.
set -e

if [ "$1" = purge ]; then
	rm -rf /var/lib/nodeadmit /var/log/nodeadmit
	rmdir /etc/nodeadmit/policies.d /etc/nodeadmit 2>/dev/null || :
fi
