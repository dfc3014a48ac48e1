#!/bin/sh
# Makes all files of a release of programs that are built already.
#
#   release.sh BIN OUT
#
# OUT gets the packages, an archive of the programs, the files of the container image, a
# software bill of materials (SPDX) and SHA256SUMS. VERSION is git describe's by default. The
# same programs and SOURCE_DATE_EPOCH (by default the time of the commit) give the same bytes.
set -eu

[ $# = 2 ] || { echo "usage: release.sh BIN OUT" >&2; exit 2; }
bin=$1 out=$2
top=$(cd "$(dirname "$0")/.." && pwd)
: "${VERSION:=$(git -C "$top" describe --tags --always --dirty)}"
: "${SOURCE_DATE_EPOCH:=$(git -C "$top" log -1 --format=%ct)}"
export VERSION SOURCE_DATE_EPOCH LC_ALL=C
umask 022

rm -rf "${out:?}"
mkdir -p "$out"
programs="$bin/rdmad $bin/rdmactl"
for format in deb rpm; do
	"$top/configs/debian/build.sh" rdmad "$bin" "$out" $format
	if [ -x "$bin/rdmacore/rdmad" ]; then
		"$top/configs/debian/build.sh" rdmad-rdmacore "$bin/rdmacore" "$out" $format
	fi
done

name=rdmad-$VERSION-linux-$(go env GOARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/$name"
# shellcheck disable=SC2086 # two programs
cp $programs "$top/LICENSE" "$top/README.md" "$top/CHANGELOG.md" "$work/$name/"
chmod 755 "$work/$name" "$work/$name/rdmad" "$work/$name/rdmactl"
tar -C "$work" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$name" | gzip -9n >"$out/$name.tar.gz"

"$top/configs/container/rootfs.sh" "$bin" "$work" >/dev/null
gzip -9nc "$work/rootfs.tar" >"$out/rdmad-$VERSION-image-rootfs.tar.gz"

# shellcheck disable=SC2086
(cd "$top" && GOARCH='' go run ./cmd/internal/sbom -version "$VERSION" -time "$SOURCE_DATE_EPOCH" $(realpath $programs)) >"$out/rdmad-$VERSION.spdx.json"

(cd "$out" && sha256sum -- * >"$work/SHA256SUMS")
cp "$work/SHA256SUMS" "$out/"
chmod 644 "$out"/*
cat "$out/SHA256SUMS"
