#!/usr/bin/env bash
# Installs what the tests and the demonstration need and isn't there yet.
#
# usage: test/prerequisites.sh [distribution|module]...   (default: both)
#
#   distribution  containerd, runc and crun from the distribution's packages
#   module        containerd 2 and its runc, built from their Go modules into
#                 $NODEADMIT_TOOLS, or nodeadmit/tools in the user's cache
set -euo pipefail

containerd_version=v2.4.2
runc_version=v1.5.3

# need PROGRAM-OR-FILE PACKAGE: remembers the package if the first is missing.
packages=()
need() {
	case $1 in
	/*) [ -e "$1" ] && return ;;
	*) PATH=$PATH:/usr/sbin:/sbin command -v "$1" >/dev/null && return ;;
	esac
	packages+=("$2")
}

install_packages() {
	[ ${#packages[@]} -gt 0 ] || return 0
	if [ "$(id -u)" != 0 ]; then
		echo "prerequisites: missing packages: ${packages[*]}: run this as root" >&2
		return 1
	fi
	command -v apt-get >/dev/null || {
		echo "prerequisites: missing: ${packages[*]}, and there is no apt-get to install them with" >&2
		return 1
	}
	echo "prerequisites: installing ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	# A fresh image has no lists, and a container no service manager: packages
	# must not start daemons.
	policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod 755 "$policy"
		trap 'rm -f "$policy"' EXIT
	fi
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
	packages=()
}

# build FILE PACKAGE [FLAGS...]: builds a program unless its module's version
# is there already.
build() {
	local program=$tools/$1 package=$2 built
	shift 2
	built=$(go version -m "$program" 2>/dev/null || true)
	if grep -q "^[[:space:]]mod.*[[:space:]]${package#*@}[[:space:]]" <<<"$built"; then
		return
	fi
	echo "prerequisites: building $package"
	GOBIN=$tools GOFLAGS=-mod=mod go install "$@" "$package"
}

[ $# -gt 0 ] || set -- distribution module
command -v go >/dev/null || {
	echo "prerequisites: no go command: see https://go.dev/doc/install" >&2
	exit 1
}
need ip iproute2
need nsenter util-linux
need /etc/ssl/certs/ca-certificates.crt ca-certificates
if ! [ -x /bin/busybox ] || ldd /bin/busybox >/dev/null 2>&1; then
	packages+=(busybox-static)
fi
for what; do
	case $what in
	distribution)
		need containerd containerd
		need runc runc
		need crun crun
		need rpm rpm
		need lintian lintian
		need rpmlint rpmlint
		need shellcheck shellcheck
		need systemd-analyze systemd
		need podman podman
		;;
	module)
		need gcc gcc
		need /usr/include/stdlib.h libc6-dev
		need /usr/include/seccomp.h libseccomp-dev
		need pkg-config pkg-config
		;;
	*)
		echo "prerequisites: unknown: $what: want distribution or module" >&2
		exit 2
		;;
	esac
done
install_packages
for what; do
	[ "$what" = module ] || continue
	tools=${NODEADMIT_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/nodeadmit/tools}
	mkdir -p "$tools"
	build runc github.com/opencontainers/runc@$runc_version -tags seccomp
	build containerd github.com/containerd/containerd/v2/cmd/containerd@$containerd_version
	build containerd-shim-runc-v2 github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2@$containerd_version
done
