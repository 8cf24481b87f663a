#!/bin/sh
# Nothing is started and no engine's configuration is changed here.
set -e

# An engine that met a missing program while it was replaced has dropped its hook,
# and looks again when the file changes.
for hook in /etc/nodeadmit/hooks.d/*/*.json; do
	if [ -e "$hook" ]; then
		touch "$hook"
	fi
done
