# Mounts a new ext4 file system in memory, of 4 GiB at most, on $disk, unless
# something is mounted there. tmpfs of 6.1 has no user extended attributes; with
# ea_inode they may be larger than a block.
set -e
if ! grep -q " $disk " /proc/mounts; then
	/sbin/modprobe -a loop ext4
	mkdir -p $disk /backing
	grep -q " /backing " /proc/mounts || mount -t tmpfs -o size=70% tmpfs /backing
	image=/backing/$(echo $disk | tr -d /)
	truncate -s 4G $image
	/sbin/mke2fs -q -t ext4 -O ea_inode -E lazy_itable_init=0,nodiscard -N 200000 $image
	mount -t ext4 -o loop,noatime,user_xattr $image $disk
	rmdir $disk/lost+found
fi
