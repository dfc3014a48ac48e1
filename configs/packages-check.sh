#!/bin/sh
# Checks the packages and the image of programs that are built already.
#
#   packages-check.sh BIN
#
# It needs lintian, rpm and buildah (Debian: apt install lintian rpm buildah).
set -eu

[ $# = 1 ] || { echo "usage: packages-check.sh BIN" >&2; exit 2; }
bin=$(realpath "$1")
top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
: "${VERSION:=$(git -C "$top" describe --tags --always --dirty)}"
export VERSION SOURCE_DATE_EPOCH=1700000000
fail() { echo "packages-check: $*" >&2; exit 1; }

say() { echo "== $*"; }
say "the same bytes twice"
(umask 022 && TZ=UTC "$top/configs/release.sh" "$bin" "$work/a" >/dev/null)
(umask 077 && TZ=Asia/Tokyo "$top/configs/release.sh" "$bin" "$work/b" >/dev/null)
diff -u "$work/a/SHA256SUMS" "$work/b/SHA256SUMS"
(cd "$work/a" && sha256sum --quiet -c SHA256SUMS)

say "lintian has no error or warning that is not overridden with a reason"
deb=$(echo "$work"/a/rdmad_*.deb) rpm=$(echo "$work"/a/rdmad-[0-9]*.rpm)
[ "$(id -u)" != 0 ] || drop="setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME=$work"
${drop:-} lintian --fail-on error,warning "$deb"

say "the deb and the rpm have the same files, which are root's"
dpkg-deb -c "$deb" | grep -qv ' root/root ' && fail "a file of the deb is not root's"
dpkg-deb --fsys-tarfile "$deb" | tar -tf - | sed 's|^\./|/|; s|^usr|/usr|; s|^etc|/etc|' | grep -v '/$' | grep -Ev 'changelog.Debian|lintian|_rdmactl' | LC_ALL=C sort >"$work/deb.files"
rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$rpm" | sed -n 's/^-[^ ]* //p' | grep -v _rdmactl | LC_ALL=C sort >"$work/rpm.files"
diff -u "$work/deb.files" "$work/rpm.files"
[ "$(rpm -qp --qf '[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]' "$rpm" | sort -u)" = root:root ] || fail "a file of the rpm is not root's"
rpm -qp --configfiles "$rpm" | grep -qx /etc/rdmad/rdmad.yaml || fail "the rpm replaces the configuration"
rpm -K --nosignature "$rpm" >/dev/null
for script in "$top"/configs/rpm/*/* "$top"/configs/debian/rdmad*/post* "$top"/configs/debian/rdmad*/prerm; do sh -n "$script"; done

say "the rpm's files, installed in an empty root"
mkdir "$work/root"
rpm --root "$work/root" --dbpath /db --nodeps --noscripts --ignorearch -i "$rpm"
"$work/root/usr/lib/rdmad/rdmad" check --offline --config "$work/root/etc/rdmad/rdmad.yaml" >/dev/null

say "the rpm's scripts, at installation, upgrade and removal"
live=$work/live
mkdir -p "$live/bin" "$live/dev" "$live/run/systemd/system"
: >"$live/dev/null"
for program in sh mkdir; do
	cp "$(command -v $program)" "$live/bin/"
	ldd "$(command -v $program)" | grep -o '/[^ ]*' | xargs cp --parents -t "$live"
done
for program in systemctl systemd-sysusers update-alternatives; do # they say how they were called
	printf '#!/bin/sh\necho "%s $*" >>/log\n' $program >"$live/bin/$program"
	chmod 755 "$live/bin/$program"
done
VERSION=9999.0.0 "$top/configs/debian/build.sh" rdmad "$bin" "$work/newer" rpm >/dev/null
for step in "-i $rpm" "-U $(echo "$work"/newer/rdmad-9999*.rpm)" "-e rdmad"; do
	# shellcheck disable=SC2086 # an option and its argument
	rpm --root "$live" --dbpath /db --nodeps $(case $step in -e*) ;; *) echo --ignorearch ;; esac) $step
	[ -d "$live/srv/rdmad" ] || fail "rpm ${step%% *}: /srv/rdmad is not there"
	echo "rpm ${step%% *}" >>"$live/log"
done
left=$(find "$live/usr" "$live/etc" -name '*rdmad*')
[ -z "$left" ] || fail "the removal leaves $left"
alternatives="update-alternatives --install /usr/sbin/rdmad rdmad /usr/lib/rdmad/rdmad 10 --slave /usr/bin/rdmactl rdmactl /usr/lib/rdmad/rdmactl"
diff -u - "$live/log" <<EOF
systemd-sysusers rdmad.conf
$alternatives
systemctl --no-reload preset rdmad.socket rdmad.service
systemctl daemon-reload
rpm -i
systemd-sysusers rdmad.conf
$alternatives
systemctl daemon-reload
systemctl try-restart rdmad.service
systemctl daemon-reload
rpm -U
systemctl --no-reload disable --now rdmad.service rdmad.socket
update-alternatives --remove rdmad /usr/lib/rdmad/rdmad
systemctl daemon-reload
rpm -e
EOF

say "the image, as buildah makes it, runs its programs"
"$top/configs/container/rootfs.sh" "$bin" "$work/image" >/dev/null
# vfs works on every file system, also on that of a container.
builder() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
builder build -q --isolation chroot --format docker --build-arg VERSION="$VERSION" -t rdmad:check "$work/image" >/dev/null
container=$(builder from -q rdmad:check)
[ "$(builder run --isolation chroot "$container" -- /usr/bin/rdmad --version)" = "$("$bin/rdmad" --version)" ] || fail "the image has another rdmad"
builder run --isolation chroot "$container" -- /usr/bin/rdmad check --offline --config /etc/rdmad/rdmad.yaml >/dev/null
builder inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Healthcheck.Test}}' rdmad:check | grep -q '^65532:65532 .*rdmactl conditions --failed' || fail "the image has another user or health check"
builder rm "$container" >/dev/null
builder rmi rdmad:check >/dev/null
echo "packages-check: all is well"
