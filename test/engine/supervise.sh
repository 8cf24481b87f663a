#!/bin/sh
# Runs a containerd whose every trace goes when its standard input ends: when
# the test closes it, and also when the test is killed.
#
# usage: supervise.sh BASE CGROUP CONTAINERD
#
# containerd gets a mount namespace of its own, with shared propagation as a
# node has it, in which everything that is written outside of BASE is hidden from
# the machine: /run (shims' sockets), /var/lib (libcni's results) and /var/log.
set -eu
base=${1:?} cgroup=${2:?} containerd=${3:?}

if [ "${4:-}" = inside ]; then
	read -r _ <"$base/held"
	# BASE may lie in /run, and /run may be noexec: bind it over the new /run.
	mkdir -p "$base/root" "$base/hide/run" "$base/hide/var"
	mount -n -t tmpfs -o mode=755 tmpfs "$base/hide/run"
	case $base in
	/run/*)
		mkdir -p "$base/hide/run/${base#/run/}"
		mount -n --bind "$base" "$base/hide/run/${base#/run/}"
		mount -n -o remount,bind,exec,suid,dev "$base/hide/run/${base#/run/}"
		;;
	esac
	mount -n -t tmpfs -o mode=755 tmpfs "$base/hide/var"
	for name in lib log; do
		mkdir -p "$base/hide/var/$name" "$base/hide/var/$name.work"
		mount -n -t overlay -o "lowerdir=/var/$name,upperdir=$base/hide/var/$name,workdir=$base/hide/var/$name.work" overlay "/var/$name"
	done
	mount -n --move "$base/hide/run" /run
	# Snapshots need a filesystem that overlay can write to, which the
	# machine's own may not be.
	mount -n -t tmpfs -o mode=711 tmpfs "$base/root"
	mount --make-rshared /
	exec "$containerd" --config "$base/config.toml"
fi

# The test starts this in a session of its own, so that a Ctrl-C meant for the
# test doesn't end the cleaning up.
mkfifo "$base/held"
unshare --mount --propagation private /bin/sh "$0" "$base" "$cgroup" "$containerd" inside </dev/null >>"$base/containerd.log" 2>&1 &
pid=$!

# The namespace tells our processes from all others. Held open, its number can't
# become another's.
own=$(readlink /proc/self/ns/mnt)
while namespace=$(readlink "/proc/$pid/ns/mnt") && [ "$namespace" = "$own" ]; do sleep 0.01; done
[ -z "$namespace" ] || exec 3<"/proc/$pid/ns/mnt"
exec 4<>"$base/held"
echo >&4
echo "$pid" >"$base/pid.new" && mv "$base/pid.new" "$base/pid"

cat >/dev/null || true # until the test is done with us

kill "$pid" 2>/dev/null || true
tries=100
while [ "$tries" -gt 0 ] && kill -0 "$pid" 2>/dev/null; do
	tries=$((tries - 1))
	sleep 0.05
done
kill -9 "$pid" 2>/dev/null || true

ours() { # the processes of our mount namespace and of our pods' cgroups
	if [ -n "$namespace" ]; then
		number=${namespace#mnt:\[}
		find /proc/[0-9]*/ns/mnt -maxdepth 0 -lname "mnt:\[${number%]}\]" -printf '%h\n' 2>/dev/null | cut -d/ -f3
	fi
	find /sys/fs/cgroup/"$cgroup" /sys/fs/cgroup/*/"$cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null || true
}
tries=100
while [ "$tries" -gt 0 ] && left=$(ours | sort -un) && [ -n "$left" ]; do
	# shellcheck disable=SC2086 # one word per process
	kill -9 $left 2>/dev/null || true
	tries=$((tries - 1))
	sleep 0.05
done

for directory in /sys/fs/cgroup/"$cgroup" /sys/fs/cgroup/*/"$cgroup"; do
	[ ! -d "$directory" ] || find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null || true
done
rm -rf --one-file-system "$base"
