#!/bin/sh
# Lays out the files of the container image, and packs them.
#
#   rootfs.sh BIN DIR
#
# BIN has the programs. DIR gets rootfs, rootfs.tar and Containerfile. The same programs
# and SOURCE_DATE_EPOCH (by default the time of the commit) give the same rootfs.tar.
set -eu

[ $# = 2 ] || { echo "usage: rootfs.sh BIN DIR" >&2; exit 2; }
bin=$1 dir=$2
top=$(cd "$(dirname "$0")/../.." && pwd)
: "${SOURCE_DATE_EPOCH:=$(git -C "$top" log -1 --format=%ct)}"
user=65532
umask 022

rm -rf "${dir:?}/rootfs"
root=$dir/rootfs
mkdir -p "$root/usr/bin" "$root/etc/rdmad" "$root/run/rdmad" "$root/srv/rdmad" "$root/var/lib/rdmad" "$root/tmp" "$root/proc"
cp "$bin/rdmad" "$bin/rdmactl" "$root/usr/bin/"
cp "$top/configs/container/rdmad.yaml" "$root/etc/rdmad/"
echo "rdmad:x:$user:$user:rdmad:/var/lib/rdmad:/nonexistent" >"$root/etc/passwd"
echo "rdmad:x:$user:" >"$root/etc/group"
cp "$top/LICENSE" "$root/"
chmod 755 "$root"/usr/bin/*
chmod 644 "$root"/etc/rdmad/* "$root/etc/passwd" "$root/etc/group" "$root/LICENSE"
chmod 1777 "$root/tmp"
cp "$top/configs/container/Containerfile" "$dir/"

# The directories that rdmad writes are the user's.
list() { (cd "$root" && find . "$@" -print | LC_ALL=C sort); }
pack() { tar -C "$root" --no-recursion --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --numeric-owner -T - -f "$dir/rootfs.tar" "$@"; }
own='\( -path ./run/rdmad -o -path ./srv/rdmad -o -path ./var/lib/rdmad \)'
eval "list ! $own" | pack --owner=0 --group=0 -c
eval "list $own" | pack --owner=$user --group=$user -r
echo "$dir/rootfs.tar"
