#!/bin/sh
# What the kernel guest needs: programs on this machine, and Debian packages
# that are unpacked into the guest's image (never installed here).
#
#   deps.sh          install and download what is missing
#   deps.sh check    say what is missing, change nothing; else print the file
#                    that lists the guest's packages
#   deps.sh newer    the same with the newer kernel
#   deps.sh machine  print the file that lists the packages of the machine in
#                    the guest (TestDebianPackage), or say that they are missing
#   deps.sh ceph     the same for the file system behind TestGateway's second
#                    ganesha
#   deps.sh prometheus   the same for Prometheus and promtool
#   deps.sh rpcbind  the same for rpcbind, which is one of the guest's packages
#   deps.sh ganesha  print the file that lists the packages of make bench-ganesha;
#                    download them if they are missing: only this needs them
#   deps.sh list     print the host packages
#
# Exit codes: 0 all there, 1 something failed, 2 bad usage, 3 packages are
# missing and can't be installed by this user; one line on stderr names them.
set -eu

# Programs that run on the host. gcc, make and libelf1 build the siw module.
# libc6-dev comes along because go builds with cgo as soon as it finds a gcc;
# libibverbs-dev and librdmacm-dev are for provider rdmacore, built for the guest.
# libnss3-tools gives chromium a client certificate.
host_packages="qemu-system-x86 iproute2 gcc libc6-dev make kmod xz-utils libelf1 tshark libibverbs-dev librdmacm-dev chromium libnss3-tools"

# Programs that run in the guest, with all that they depend on. dataplane/rpcbind's
# tests run rpcbind on this machine from where it is unpacked (dataplane/rpcbind/rpcbindtest):
# installing it would start it.
guest_packages="busybox-static kmod iproute2 nfs-common nfs-kernel-server
rpcbind netbase rdma-core ibverbs-providers rdmacm-utils perftest fio
nfs-ganesha nfs-ganesha-vfs attr e2fsprogs xfsprogs"

# Dependencies that no program copied into the guest uses.
unused_packages='^(perl|libperl|dbus|python|libpython|dpkg|tar|udev|adduser|passwd|ucf)'

# What a machine with systemd is made of, on which rdmad's package is installed
# in the guest. Its programs are unpacked, and no more, so that what only the
# packages' own scripts use can be left out.
machine_packages="systemd systemd-sysv dpkg base-passwd bash dash coreutils
init-system-helpers libc-bin util-linux mount grep sed findutils diffutils tar perl-base
libibverbs1 librdmacm1 ibverbs-providers"
machine_unused='^(perl=|perl-modules|libperl|usrmerge|lib(number|text|file)-|libgdbm|gcc-|libdb5|debconf|debianutils|libaudit-common|libsemanage|passwd|login|libsepol)'

# A file system of Ceph's with an nfs-ganesha before it, run on this machine from where they are
# unpacked (ceph_server_test.go), and of what they depend on the libraries.
ceph_packages="ceph-mon ceph-osd ceph-mds nfs-ganesha nfs-ganesha-ceph"
ceph_unused='^(ceph=|ceph-common|ceph-mgr|perl|libperl|python|libpython|dpkg|tar=|udev|dm|adduser|passwd|ucf|debconf|lvm2|liblvm|sudo|lib(js|pam|text|file|number|unwind|boost-python|db5|gdbm|icu|babeltrace|glib|radosstriper|rbd|rgw|ctf|gprof)|librgw|(lib)?binutils|cron|dmidecode|smart|nvme|gdisk|hdparm|xfsprogs|ca-cert|openssl|cryptsetup-bin|nfs-common|logrotate|parted|psmisc|usrmerge|e2fsprogs|uuid-runtime|tzdata|media-types|rpcbind|lsb-base|sysvinit|readline|sensible|debianutils|init-system|gcc-)'

# Prometheus and promtool, run on this machine from where they are unpacked
# (interop/monitoring): installing them would start a server. They need only libc.
prometheus_packages="prometheus"

# nfs-ganesha before a directory of this machine, and the library of the client that
# compares it with rdmad (make bench-ganesha), run from where they are unpacked.
ganesha_packages="nfs-ganesha nfs-ganesha-vfs libnfs-dev"

# The guest's newer kernel: Debian 13's own, Debian 12's from its backports.
newer_series=6.12

missing_code=3

say() { printf 'interop/deps.sh: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

cache="${RDMAD_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}}/rdmad"
pool="$cache/debs"

# The release and the wanted packages decide which set is the right one.
release=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-unknown}") || release=unknown
wanted=$(echo "$guest_packages $unused_packages" | cksum | cut -d' ' -f1)
lock="$cache/packages-$release-$wanted"
rpcbind_lock="$cache/rpcbind-$release-$wanted"
newer_lock="$cache/packages-$newer_series-$release-$wanted"
machine_lock="$cache/machine-$release-$(echo "$machine_packages $machine_unused" | cksum | cut -d' ' -f1)"
ceph_lock="$cache/ceph-$release-$(echo "$ceph_packages $ceph_unused" | cksum | cut -d' ' -f1)"

prometheus_lock="$cache/prometheus-$release-$(echo "$prometheus_packages" | cksum | cut -d' ' -f1)"

ganesha_lock="$cache/ganesha-$release-$(echo "$ganesha_packages $unused_packages" | cksum | cut -d' ' -f1)"

# missing_host prints the host packages that are not installed.
missing_host() {
	have=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' \
		$host_packages libelf1t64 2>/dev/null || true) "
	for p in $host_packages; do
		case "$have" in
		*" installed:$p "* | *" installed:${p}t64 "*) ;;
		*) printf '%s ' "$p" ;;
		esac
	done
}

# guest_ready succeeds when every package of the lock files is in the pool.
guest_ready() {
	locked_ready "$lock" && locked_ready "$newer_lock" && locked_ready "$machine_lock" && locked_ready "$ceph_lock" && locked_ready "$prometheus_lock"
}

# locked_ready succeeds when every package of one lock file is in the pool.
locked_ready() {
	[ -s "$1" ] || return 1
	while read -r kind file; do
		[ "$kind" != deb ] || [ -e "$pool/$file" ] || return 1
	done <"$1"
}

# apt runs an apt program on lists of its own, as if nothing were installed:
# it needs no root, meets no stale index and answers alike on every machine.
# apt_state is where the lists are, apt_sources the options that choose other
# sources than the machine's.
apt_state="$cache/apt"
apt_sources=
apt() {
	program=$1
	shift
	"$program" -qq \
		-o Dir::State="$apt_state" -o Dir::State::status=/dev/null \
		-o Dir::Cache="$apt_state/cache" -o APT::Sandbox::User= \
		-o Debug::NoLocking=1 $apt_sources "$@"
}

# make_apt makes apt's directories.
make_apt() { mkdir -p "$apt_state/lists/partial" "$apt_state/cache/archives/partial"; }

# resolve PACKAGES UNUSED prints name=version of packages and of what they
# depend on, but for those that match a pattern.
resolve() {
	apt apt-get -s install --no-install-recommends $1 |
		sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p' |
		grep -Ev "$2"
}

# depends prints the dependencies of a package whose names match a pattern.
depends() {
	apt apt-cache depends --important "$1" |
		sed -n 's/^ *|\{0,1\}Depends: //p' | grep -E "$2" | sort -u
}

# kernel_packages prints name=version of image, headers, kbuild and source:
# all of one version, else siw would be built from another kernel's source.
kernel_packages() {
	image=$(depends linux-image-amd64 '^linux-image-[0-9]' | head -n1)
	kernel=${image#linux-image-}
	headers=linux-headers-$kernel
	series=$(echo "$kernel" | sed 's/^\([0-9]*\.[0-9]*\).*/\1/')
	version=$(apt apt-cache show "$image" | sed -n 's/^Version: //p' | head -n1)
	echo "$image=$version" "$headers=$version" "linux-source-$series=$version"
	depends "$headers" '^linux-(headers|kbuild)-' |
		grep -vx "$headers"
}

# series_of prints the series of the kernel that apt's linux-image-amd64 is.
series_of() { depends linux-image-amd64 '^linux-image-[0-9]' | sed -n '1s/^linux-image-\([0-9]*\.[0-9]*\).*/\1/p'; }

# backports prints a source of this release's backports on the mirror that the
# machine has the release itself from.
backports() {
	uri=$(apt apt-get indextargets --format '$(REPO_URI)' \
		'Created-By: Packages' "Codename: $release" 'Component: main' | head -n1)
	[ -n "$uri" ] || return 1
	keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	[ ! -e $keyring ] || signed="[signed-by=$keyring] "
	echo "deb ${signed-}$uri $release-backports main"
}

# download_newer downloads the newer kernel and prints its packages as
# name=version. It runs in a process of its own: it changes apt's sources.
download_newer() {
	if [ "$(series_of)" != $newer_series ]; then
		source=$(backports) || fail "apt knows no mirror of $release"
		apt_state="$cache/apt-backports"
		make_apt
		list="$apt_state/sources.list"
		echo "$source" >"$list"
		apt_sources="-o Dir::Etc::sourcelist=$list -o Dir::Etc::sourceparts=/dev/null"
		apt apt-get update >&2 || say "apt-get update reported errors, going on"
		[ "$(series_of)" = $newer_series ] ||
			fail "no Linux $newer_series: neither $release nor its backports have it"
	fi
	packages=$(kernel_packages)
	(cd "$pool" && apt apt-get download $packages) >&2
	echo $packages
}

# prepare_download makes the directories of downloads, and keeps others from them. It
# fails if there is no apt.
prepare_download() {
	command -v apt-get >/dev/null || return 1
	mkdir -p "$pool"
	make_apt
	exec 9>"$cache/deps.lock"
	flock 9
}

download_ganesha() {
	prepare_download || return 1
	! locked_ready "$ganesha_lock" || return 0
	say "downloading nfs-ganesha and libnfs to $pool"
	apt apt-get update >&2 || say "apt-get update reported errors, going on"
	ganesha=$(resolve "$ganesha_packages" "$unused_packages")
	[ -n "$ganesha" ] || fail "apt can't resolve $ganesha_packages"
	(cd "$pool" && apt apt-get download $ganesha) >&2
	write_lock "$ganesha_lock" $ganesha
}

download_guest() {
	prepare_download || return 1
	! guest_ready || return 0
	say "downloading the guest's packages to $pool"
	apt apt-get update || say "apt-get update reported errors, going on"
	userland=$(resolve "$guest_packages" "$unused_packages")
	machine=$(resolve "$machine_packages" "$machine_unused")
	ceph=$(resolve "$ceph_packages" "$ceph_unused")
	[ -n "$userland" ] && [ -n "$machine" ] && [ -n "$ceph" ] || fail "apt can't resolve the guest's packages"
	kernel=$(kernel_packages)
	newer=$(download_newer) || exit 1
	(cd "$pool" && apt apt-get download $userland $kernel $machine $ceph $prometheus_packages)
	write_lock "$lock" $userland $kernel
	write_lock "$newer_lock" $userland $newer
	write_lock "$machine_lock" $machine
	write_lock "$ceph_lock" $ceph
	write_lock "$prometheus_lock" $prometheus_packages
}

# write_lock records the kernel and the file of each package, atomically.
write_lock() {
	to=$1
	shift
	{
		for p in "$@"; do
			name=${p%%=*}
			case $name in
			linux-image-*) echo "kernel ${name#linux-image-}" ;;
			esac
			version=${p#*=}
			[ "$version" != "$p" ] || version='*'
			file=$(cd "$pool" && newest "$name" "$(echo "$version" | sed 's/:/%3a/')")
			[ -n "$file" ] || fail "$p was not downloaded"
			echo "deb $file"
		done
	} >"$to.tmp"
	mv "$to.tmp" "$to"
}

# newest prints the file of package $1 whose version matches $2.
newest() {
	ls -t "$1"_$2_*.deb 2>/dev/null | head -n1
}

install_host() {
	say "installing $1"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update || say "apt-get update reported errors, going on"
	apt-get -qq install --no-install-recommends -y $1 >/dev/null ||
		fail "apt-get install $1 failed"
}

# report_missing says in one line which packages are missing here ($1) and
# which have not been downloaded for the guest ($2), and ends.
report_missing() {
	line="missing Debian packages:"
	[ -z "$1" ] || line="$line $1"
	[ -z "$2" ] || line="$line (for the guest, not to be installed:) $(echo $2)"
	say "$line; interop/deps.sh gets them (as root, if any must be installed)"
	exit $missing_code
}

# missing_guest prints the guest's packages unless they are all in the pool.
missing_guest() { guest_ready || echo "$guest_packages $machine_packages $ceph_packages $prometheus_packages linux-image linux-headers linux-source"; }

case "${1:-install}" in
list)
	echo "$host_packages"
	;;
check)
	missing=$(missing_host)
	download=$(missing_guest)
	[ -z "$missing$download" ] || report_missing "$missing" "$download"
	echo "$lock"
	;;
newer | machine | ceph | prometheus)
	guest_ready || report_missing "$(missing_host)" "$(missing_guest)"
	case $1 in
	newer) echo "$newer_lock" ;;
	machine) echo "$machine_lock" ;;
	ceph) echo "$ceph_lock" ;;
	prometheus) echo "$prometheus_lock" ;;
	esac
	;;
rpcbind)
	locked_ready "$lock" || report_missing "" "rpcbind netbase"
	grep -E '^deb (rpcbind|netbase|lib[^_]*)_' "$lock" >"$rpcbind_lock.$$" # and all libraries
	mv "$rpcbind_lock.$$" "$rpcbind_lock"
	echo "$rpcbind_lock"
	;;
ganesha)
	locked_ready "$ganesha_lock" || download_ganesha || {
		say "missing Debian packages (not to be installed): $ganesha_packages; downloading them needs apt-get"
		exit $missing_code
	}
	echo "$ganesha_lock"
	;;
install)
	missing=$(missing_host)
	if [ -n "$missing" ]; then
		[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
			report_missing "$missing" "$(missing_guest)"
		install_host "$missing"
	fi
	guest_ready || download_guest || report_missing "" "$(missing_guest)"
	echo "$lock"
	;;
*)
	say "usage: deps.sh [check|newer|list|machine|ceph|prometheus|rpcbind|ganesha]"
	exit 2
	;;
esac
