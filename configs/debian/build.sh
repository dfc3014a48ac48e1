#!/bin/sh
# Makes a package of programs that are built already, by nfpm.
#
#   build.sh rdmad|rdmad-rdmacore BIN OUT [deb|rpm]
#
# BIN has the programs, OUT gets PACKAGE_VERSION_ARCH.deb or PACKAGE-VERSION.ARCH.rpm.
# VERSION is git describe's by default. COMPRESSION is nfpm's: gzip (default) or none for
# a deb. The same programs, version and SOURCE_DATE_EPOCH (by default the time of the
# commit) give the same bytes.
set -eu

usage() { echo "usage: build.sh rdmad|rdmad-rdmacore BIN OUT [deb|rpm]" >&2; exit 2; }
[ $# = 3 ] || [ $# = 4 ] || usage
package=$1 bin=$2 out=$3 format=${4:-deb}
top=$(cd "$(dirname "$0")/../.." && pwd)
debian=$top/configs/debian
maintainer="rdmad maintainers <maintainers@rdmad.invalid>"

: "${VERSION:=$(git -C "$top" describe --tags --always --dirty)}"
: "${SOURCE_DATE_EPOCH:=$(git -C "$top" log -1 --format=%ct)}"
export VERSION SOURCE_DATE_EPOCH LC_ALL=C
umask 022

# arch is the architecture as the format names it.
arch() {
	case $format:$(go env GOARCH) in
	deb:386) echo i386 ;;
	deb:arm) echo armhf ;;
	deb:ppc64le) echo ppc64el ;;
	rpm:amd64) echo x86_64 ;;
	rpm:arm64) echo aarch64 ;;
	*) go env GOARCH ;;
	esac
}

root=$(mktemp -d)
spec=$(mktemp)
trap 'rm -rf "$root" "$spec"' EXIT
chmod 755 "$root"

# put MODE FILE TARGET installs a file; with .gz as the target's end, packed.
put() {
	mkdir -p "$(dirname "$root/$3")"
	case $3 in
	*.gz) gzip -9nc "$2" >"$root/$3" ;;
	*) cp "$2" "$root/$3" ;;
	esac
	chmod "$1" "$root/$3"
}

# completion SHELL TARGET has rdmactl write its completion for a shell; one for
# another machine can't be run here.
completion() {
	mkdir -p "$(dirname "$root/$2")"
	if [ "$(go env GOARCH)" = "$(go env GOHOSTARCH)" ]; then
		"$bin/rdmactl" completion "$1"
	else
		(cd "$top" && GOARCH='' go run ./cmd/rdmactl completion "$1")
	fi >"$root/$2"
}

# licences collects those of the modules in a program.
licences() {
	(cd "$top" && go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "$@") | sort -u |
		while read -r path version dir; do
			printf '==== %s %s\n' "$path" "$version"
			find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) | sort | xargs -r -d '\n' cat
			echo
		done
}

documents() {
	put 644 "$debian/copyright" "usr/share/doc/$package/copyright"
	if [ "$format" = deb ]; then
		put 644 "$debian/$package/lintian-overrides" "usr/share/lintian/overrides/$package"
		printf '%s (%s-1) unstable; urgency=medium\n\n  * See changelog.gz of package rdmad.\n\n -- %s  %s\n' "$package" "$version" "$maintainer" \
			"$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$root/changelog"
		put 644 "$root/changelog" "usr/share/doc/$package/changelog.Debian.gz"
		rm "$root/changelog"
	fi
	licences "$@" >"$root/licences"
	put 644 "$root/licences" "usr/share/doc/$package/licences.gz"
	rm "$root/licences"
}

files_rdmad() {
	put 755 "$bin/rdmad" usr/lib/rdmad/rdmad
	put 755 "$bin/rdmactl" usr/lib/rdmad/rdmactl
	for unit in service socket; do
		put 644 "$top/configs/systemd/rdmad.$unit" "usr/lib/systemd/system/rdmad.$unit"
	done
	put 644 "$top/configs/systemd/rdmad.sysusers" usr/lib/sysusers.d/rdmad.conf
	put 644 "$debian/rdmad/rdmad.yaml" etc/rdmad/rdmad.yaml
	completion bash usr/share/bash-completion/completions/rdmactl
	case $format in
	deb) completion zsh usr/share/zsh/vendor-completions/_rdmactl ;;
	rpm) completion zsh usr/share/zsh/site-functions/_rdmactl ;;
	esac
	completion fish usr/share/fish/vendor_completions.d/rdmactl.fish
	for page in "$debian"/man/*.[158]; do
		put 644 "$page" "usr/share/man/man${page##*.}/${page##*/}.gz"
	done
	put 644 "$top/CHANGELOG.md" usr/share/doc/rdmad/changelog.gz
	for page in "$top"/docs/*.md; do
		put 644 "$page" "usr/share/doc/rdmad/${page##*/}"
	done
	for example in "$top"/configs/*.yaml; do
		put 644 "$example" "usr/share/doc/rdmad/examples/${example##*/}"
	done
	for rules in "$top"/configs/prometheus/*.yaml; do
		put 644 "$rules" "usr/share/rdmad/prometheus/${rules##*/}"
	done
	put 644 "$top/configs/grafana/rdmad.json" usr/share/rdmad/grafana/rdmad.json
	documents ./cmd/rdmad ./cmd/rdmactl
}

files_rdmad_rdmacore() {
	put 755 "$bin/rdmad" usr/lib/rdmad/rdmad-rdmacore
	put 755 "$bin/rdmactl" usr/lib/rdmad/rdmactl-rdmacore
	documents -tags rdmacore ./cmd/rdmad ./cmd/rdmactl
}

# libc is the newest version of libc6 whose symbols a program needs.
libc() { objdump -T "$1" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -n1; }

# contents lists the files for nfpm, and the directories that are the package's own.
contents() {
	echo contents:
	(cd "$root" && find . -type d \( -name rdmad -o -name "$package" -o -path '*/rdmad/*' \) -printf '%P\n' | LC_ALL=C sort) |
		sed 's|.*|  - {dst: "/&", type: dir, file_info: {mode: 0755}}|'
	(cd "$root" && find . -type f -printf '%P\n' | LC_ALL=C sort) | while read -r file; do
		case $file in
		etc/*) type=', type: "config|noreplace"' ;;
		*) type= ;;
		esac
		echo "  - {src: \"$root/$file\", dst: \"/$file\"$type}"
	done
}

# scripts names the maintainer scripts of the format.
scripts() {
	case $format in
	deb) from=$debian/$package ;;
	rpm) from=$top/configs/rpm/$package ;;
	esac
	echo scripts:
	for pair in postinst:postinstall prerm:preremove postrm:postremove; do
		[ ! -e "$from/${pair%:*}" ] || echo "  ${pair#*:}: $from/${pair%:*}"
	done
}

version=$("$debian/version.sh")
case $package in
rdmad) files_rdmad ;;
rdmad-rdmacore) files_rdmad_rdmacore; libc=$(libc "$bin/rdmad") ;;
*) usage ;;
esac

{
	cat <<SPEC
name: $package
arch: $(go env GOARCH)
platform: linux
version: "$version"
version_schema: none
release: "1"
maintainer: "$maintainer"
vendor: rdmad
homepage: https://github.com/rdmad/rdmad
priority: optional
mtime: $(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
deb: {compression: ${COMPRESSION:-gzip}}
rpm: {buildhost: rdmad}
SPEC
	[ "$format" = deb ] || echo "license: Apache-2.0" # a deb has it in its copyright file
	sed "s|@VERSION@|$version-1|; s|@RPMVERSION@|$version-1|; s|@LIBC@|${libc:-}|" "$debian/$package/nfpm.in"
	scripts
	contents
} >"$spec"

mkdir -p "$out"
case $format in
deb) file=$out/${package}_$version-1_$(arch).deb ;;
rpm) file=$out/$package-$version-1.$(arch).rpm ;;
*) usage ;;
esac
out=$(cd "$out" && pwd)
(cd "$top" && GOOS='' GOARCH='' GOFLAGS='' go tool -modfile=nfpm.mod nfpm package --config "$spec" --packager "$format" --target "$out/${file##*/}" >/dev/null)
echo "$file"
