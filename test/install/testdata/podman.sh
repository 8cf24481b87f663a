#!/bin/sh
# usage: unshare --mount podman.sh BASE: what TestPodman does in a namespace.
base=$1
n=$base/nodeadmit
mkdir "$base/etc"
mount -t tmpfs tmpfs "$base/etc"
mkdir "$base/etc/up" "$base/etc/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$base/etc/up,workdir=$base/etc/work" /etc
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/podman/root"\nrunroot = "%s/podman/run"\n' "$base" "$base" >/etc/containers/storage.conf

podman() {
	command podman --tmpdir "$base/podman/tmp" --cgroup-manager cgroupfs --events-backend none --runtime runc "$@" 2>&1 || echo "exit code $?"
}
# --ulimit: many CI machines may not raise limits.
run() {
	podman "$@" --rm --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --network none --rootfs "$base/rootfs" /bin/sh -c 'echo hello'
}

echo "== install"
"$n/lib/nodeadmit" install --engine podman --lib-dir "$n/lib" --share-dir "$n/share" --config "$n/etc/config.yaml" --state-dir "$n/var" || [ $? = 1 ]
echo "== allowed"
run run
echo "== refused"
run run --privileged
echo "== hook"
run --runtime /usr/sbin/runc run --pid host
echo "== doctor"
"$n/lib/nodeadmit" doctor --state-dir "$n/var" || :
echo "== uninstall"
"$n/lib/nodeadmit" uninstall --lib-dir "$n/lib" --state-dir "$n/var"
echo "== left"
find /etc/nodeadmit /etc/containers -name '*nodeadmit*' -type f 2>/dev/null || :
echo end
echo "== after"
run run --privileged
umount -l "$base/podman/root/overlay" 2>/dev/null || :
umount -l /etc "$base/etc"
