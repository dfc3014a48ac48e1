#!/bin/sh
# Makes a Debian package of programs that are built already.
#
#   build.sh rdmad|rdmad-rdmacore BIN OUT
#
# BIN has the programs, OUT gets PACKAGE_VERSION_ARCH.deb. VERSION is git
# describe's by default. The same programs, version and SOURCE_DATE_EPOCH (by
# default the time of the commit) give the same bytes.
set -eu

[ $# = 3 ] || { echo "usage: build.sh rdmad|rdmad-rdmacore BIN OUT" >&2; exit 2; }
package=$1 bin=$2 out=$3
top=$(cd "$(dirname "$0")/../.." && pwd)
debian=$top/configs/debian
maintainer="rdmad maintainers <maintainers@rdmad.invalid>"

: "${VERSION:=$(git -C "$top" describe --tags --always --dirty)}"
: "${SOURCE_DATE_EPOCH:=$(git -C "$top" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH LC_ALL=C
umask 022

# debian_version makes git describe's words a version that grows: v1.2.3 is
# 1.2.3-1, v1.2.3-5-gabc1234 is 1.2.3+5.gabc1234-1, and a commit without a tag
# before it is 0~ and its time.
debian_version() {
	v=$(echo "$VERSION" | sed 's/^v\([0-9]\)/\1/; s/-/+/; s/[^A-Za-z0-9.+~]/./g')
	case $v in
	[0-9]*.*) echo "$v-1" ;;
	*) echo "0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$v-1" ;;
	esac
}

arch() {
	case $(go env GOARCH) in
	386) echo i386 ;;
	arm) echo armhf ;;
	ppc64le) echo ppc64el ;;
	*) go env GOARCH ;;
	esac
}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
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
	put 644 "$debian/$package/lintian-overrides" "usr/share/lintian/overrides/$package"
	printf '%s (%s) unstable; urgency=medium\n\n  * See changelog.gz of package rdmad.\n\n -- %s  %s\n' "$package" "$version" "$maintainer" \
		"$(date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$root/changelog"
	put 644 "$root/changelog" "usr/share/doc/$package/changelog.Debian.gz"
	rm "$root/changelog"
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
	completion zsh usr/share/zsh/vendor-completions/_rdmactl
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
	documents ./cmd/rdmad ./cmd/rdmactl
}

files_rdmad_rdmacore() {
	put 755 "$bin/rdmad" usr/lib/rdmad/rdmad-rdmacore
	put 755 "$bin/rdmactl" usr/lib/rdmad/rdmactl-rdmacore
	documents -tags rdmacore ./cmd/rdmad ./cmd/rdmactl
}

# libc is the newest version of libc6 whose symbols a program needs.
libc() { objdump -T "$1" | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -n1; }

version=$(debian_version)
case $package in
rdmad) files_rdmad ;;
rdmad-rdmacore) files_rdmad_rdmacore; libc=$(libc "$bin/rdmad") ;;
*) echo "build.sh: no package $package" >&2; exit 2 ;;
esac

mkdir "$root/DEBIAN"
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs -d '\n' md5sum) >"$root/DEBIAN/md5sums"
chmod 644 "$root/DEBIAN/md5sums"
for file in postinst prerm postrm; do
	[ ! -e "$debian/$package/$file" ] || put 755 "$debian/$package/$file" "DEBIAN/$file"
done
[ ! -e "$debian/$package/conffiles" ] || put 644 "$debian/$package/conffiles" DEBIAN/conffiles
sed "s|@VERSION@|$version|; s|@ARCH@|$(arch)|; s|@MAINTAINER@|$maintainer|; s|@LIBC@|${libc:-}|
	s|@SIZE@|$(du -sk --apparent-size "$root" | cut -f1)|" "$debian/$package/control.in" >"$root/DEBIAN/control"

mkdir -p "$out"
file=$out/${package}_${version}_$(arch).deb
dpkg-deb --root-owner-group --build "$root" "$file" >/dev/null
echo "$file"
