#!/bin/sh
# Makes both packages as somebody new to it would, in a Debian that has nothing
# but what docs/packaging.md tells to install, and lives with them there: the same
# bytes twice, lintian, installation, shells, an upgrade, removal.
#
#   clean.sh SUITE [DIR]
#
# SUITE is bookworm or trixie. DIR gets that Debian (some 2 GB) and is kept, for
# the next time, if it is given. MIRROR is debootstrap's by default. It needs root,
# debootstrap and Go, whose modules are taken from this machine's cache. What is
# committed counts.
set -eu

[ $# = 1 ] || [ $# = 2 ] || { echo "usage: clean.sh SUITE [DIR]" >&2; exit 2; }
suite=$1
top=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# = 2 ]; then
	root=$2
	mkdir -p "$root"
else
	root=$(mktemp -d)
	chmod 755 "$root" # not everything in there is root
	trap 'rm -rf --one-file-system "$root"' EXIT
fi

# inside runs a script in that Debian, which ends with all its processes and
# mounts.
inside() {
	unshare --mount --pid --fork sh -ec '
		root=$1 go=$2 modules=$3 script=$4
		mkdir -p "$root/usr/local/go" "$root/root/go/pkg/mod"
		mount --rbind /dev "$root/dev"
		mount -t proc proc "$root/proc"
		mount -t tmpfs tmpfs "$root/run"
		mount --bind "$go" "$root/usr/local/go"
		mount --bind "$modules" "$root/root/go/pkg/mod"
		exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive GOPROXY=off GOTOOLCHAIN=local sh -ec "$script"
	' inside "$root" "$(go env GOROOT)" "$(go env GOMODCACHE)" "$1"
}

say() { echo "== $suite: $*"; }

say "nothing but the base system and what docs/packaging.md says"
(cd "$top" && go mod download && go mod download -modfile=nfpm.mod)
[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase "$suite" "$root" ${MIRROR:+"$MIRROR"} >/dev/null
needs=$(sed -n 's/^apt install \(.*gcc.*\)$/\1/p' "$top/docs/packaging.md")
[ -n "$needs" ] || { echo "docs/packaging.md does not say what to install" >&2; exit 1; }
cp /etc/resolv.conf "$root/etc/"
inside "apt-get -qq update && apt-get -qq install --no-install-recommends -y $needs >/dev/null"

say "make deb, in two places, gives the same bytes"
rm -rf "${root:?}/root/rdmad" "${root:?}/srv/elsewhere"
git clone -q "$top" "$root/root/rdmad"
git clone -q "$root/root/rdmad" "$root/srv/elsewhere"
for place in root/rdmad srv/elsewhere; do
	inside "cd /$place && GOCACHE=\$PWD/bin/cache make deb >/dev/null && rm -rf bin/cache && ls bin/*.deb"
done
(cd "$root/srv/elsewhere/bin" && for deb in *.deb; do cmp "$deb" "$root/root/rdmad/bin/$deb"; done)

say "lintian has nothing to say that is not overridden with a reason"
inside 'apt-get -qq install --no-install-recommends -y lintian bash-completion zsh fish man-db >/dev/null
cp /root/rdmad/bin/*.deb /tmp
setpriv --reuid=nobody --regid=nogroup --clear-groups lintian --fail-on error,warning /tmp/*.deb'

say "installed, as it is read by man and the shells"
inside 'apt-get -qq install --no-install-recommends -y /tmp/rdmad_*.deb /tmp/rdmad-rdmacore_*.deb >/dev/null
rdmad version
rdmad check --offline --config /etc/rdmad/rdmad.yaml >/dev/null
getent group rdmad
for page in rdmad.8 rdmactl.1 rdmad.yaml.5; do
	gunzip <"/usr/share/man/man${page##*.}/$page.gz" >"/tmp/$page"
	said=$(man --warnings -l "/tmp/$page" 2>&1 >/dev/null)
	[ -z "$said" ] || { echo "$page: $said"; exit 1; }
done
sh /root/rdmad/configs/debian/shells.sh'

say "upgraded, with the configuration that was changed; removed; purged"
inside 'sed -i "1i # changed" /etc/rdmad/rdmad.yaml
cd /root/rdmad
sed -i "s/^# rdmad.s configuration/&, newer/" configs/debian/rdmad/rdmad.yaml
for package in rdmad rdmad-rdmacore; do
	bin=bin
	[ $package = rdmad ] || bin=bin/rdmacore
	COMPRESSION=none VERSION=v99.0.0 configs/debian/build.sh $package $bin /tmp/newer >/dev/null
done
git checkout -q configs
dpkg --force-confold -i /tmp/newer/*.deb >/dev/null
dpkg-query -W rdmad rdmad-rdmacore
head -n1 /etc/rdmad/rdmad.yaml | grep -qx "# changed"
grep -q newer /etc/rdmad/rdmad.yaml.dpkg-dist
dpkg -r rdmad-rdmacore >/dev/null
[ "$(readlink -f /usr/sbin/rdmad)" = /usr/lib/rdmad/rdmad ]
dpkg -r rdmad >/dev/null
[ -e /etc/rdmad/rdmad.yaml ]
dpkg -P rdmad rdmad-rdmacore >/dev/null
left=$(find / -xdev \( -path /root -o -path /srv/elsewhere -o -path /tmp -o -path /var/log -o -path /var/cache \) -prune -o -name "*rdmad*" -print)
[ -z "$left" ] || { echo "left: $left"; exit 1; }
rm -r /tmp/newer /tmp/*.deb'
say "done"
