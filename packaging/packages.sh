#!/usr/bin/env bash
# Builds deb and rpm packages for amd64 and arm64 into a directory. The same
# source, version and SOURCE_DATE_EPOCH give the same bytes.
#
# usage: packaging/packages.sh VERSION [DIR [ARCH...]]
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: packaging/packages.sh VERSION [DIR [ARCH...]]}
out=$(realpath -m "${2:-bin/packages}")
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- amd64 arm64

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

# v1.2.3 is 1.2.3, v1.2.3-rc.1 sorts before it, v1.2.3-4-g5e6f after it; a
# bare commit sorts before all.
case $version in
v[0-9]*-*-g*)
	rest=${version#v}
	PACKAGE_VERSION=${rest%%-*}+${rest#*-}
	;;
v[0-9]* | [0-9]*.[0-9]*) PACKAGE_VERSION=$(sed 's/^v//; s/-rc/~rc/' <<<"$version") ;;
*) PACKAGE_VERSION=0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d).$version ;;
esac
PACKAGE_VERSION=${PACKAGE_VERSION//-/.}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"
stamp="-X github.com/nodeadmit/nodeadmit/internal/version.Version=$version"

go build -C packaging/tools -buildvcs=false -o "$stage/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
go run -buildvcs=false -tags docs -ldflags "$stamp" ./cmd/nodeadmit docs "$stage/docs"
# A page for everything, and none for commands that people type once.
rm -f "$stage"/docs/man/nodeadmit-{completion,help}*
gzip -n9 "$stage"/docs/man/*.8
gzip -n9 >"$stage/changelog.gz" <<END
nodeadmit ($PACKAGE_VERSION-1) unstable; urgency=medium

  * Version $version. See the repository's history.

 -- nodeadmit maintainers <maintainers@nodeadmit.dev>  $(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S +0000')
END

for ARCH; do
	STAGE=$stage/$ARCH
	mkdir -p "$STAGE"
	cp -r "$stage/docs" "$stage/changelog.gz" "$STAGE"
	CGO_ENABLED=0 GOOS=linux GOARCH=$ARCH go build -trimpath -buildvcs=false -ldflags "-s -w $stamp" -o "$STAGE/bin/" \
		./cmd/runtime-wrapper ./cmd/runtime-judge ./cmd/oci-hook ./cmd/nodeadmit
	go run -buildvcs=false ./packaging/sbom nodeadmit "$PACKAGE_VERSION" "$STAGE"/bin/* >"$STAGE/sbom.spdx.json"
	# Modes don't depend on the builder's umask.
	chmod -R u=rwX,go=rX "$STAGE"
	# A line with ${MAN} is one for each man page.
	# shellcheck disable=SC2016
	while IFS= read -r line; do
		case $line in
		*'${MAN}'*) for MAN in "$STAGE"/docs/man/*; do echo "${line//'${MAN}'/${MAN##*/}}"; done ;;
		*) echo "$line" ;;
		esac
	done <packaging/nfpm.yaml |
		sed "s,\${STAGE},$STAGE,; s,\${ARCH},$ARCH,; s,\${PACKAGE_VERSION},$PACKAGE_VERSION," >"$STAGE/nfpm.yaml"
	for packager in deb rpm; do
		"$stage/nfpm" package --config "$STAGE/nfpm.yaml" --packager $packager --target "$out"
	done
done
ls -l "$out"
