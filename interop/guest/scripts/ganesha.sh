# Starts nfs-ganesha, which speaks NFS over TCP alone, in the guest: versions
# 4.0, 4.1 and 4.2 on port $port, of /ganesha, an ext4 file system in memory.
# rdma.sh must have run. Where the file system is there already, only the
# program is started: as after a crash. Its back end VFS has no delegations and
# no extended attributes.
set -e
dir=/run/ganesha
if [ ! -d $dir ]; then
	/sbin/modprobe -a loop ext4
	mkdir -p $dir /backing /ganesha /var/lib/nfs/ganesha
	mount -t tmpfs -o size=60% tmpfs /backing
	truncate -s 4G /backing/image
	/sbin/mke2fs -q -t ext4 -E lazy_itable_init=0,nodiscard -N 200000 /backing/image
	mount -t ext4 -o loop,noatime,user_xattr /backing/image /ganesha
	rmdir /ganesha/lost+found
	ln -sf /proc/self/mounts /etc/mtab
	pidof rpcbind >/dev/null || { mkdir -p /run/rpcbind; rpcbind; }
fi
# The lease is short, so that clients have to renew it many times in a test of
# a minute; half of it is the least that a client of before gets to come back.
cat >$dir/ganesha.conf <<-END
NFS_CORE_PARAM {
	NFS_Port = $port;
	Protocols = 4;
	Enable_NLM = false;
	Enable_RQUOTA = false;
	DRC_Disabled = true;
}
NFSV4 {
	Lease_Lifetime = 20;
	Grace_Period = 20;
	Only_Numeric_Owners = true;
	UseGetpwnam = true;
	Minor_Versions = 0, 1, 2;
	RecoveryBackend = fs;
}
EXPORT {
	Export_Id = 1;
	Path = /ganesha;
	Pseudo = /;
	Access_Type = RW;
	Squash = No_Root_Squash;
	SecType = sys;
	Protocols = 4;
	Transports = TCP;
	Attr_Expiration_Time = 0;
	FSAL { Name = VFS; }
}
# Files come and go behind its back as well.
MDCACHE {
	Dir_Chunk = 0;
}
LOG {
	Default_Log_Level = EVENT;
}
END
: >$dir/log
ganesha.nfsd -f $dir/ganesha.conf -L $dir/log -p $dir/pid -N NIV_EVENT
for i in $(seq 600); do
	pidof ganesha.nfsd >/dev/null || break
	! grep -qE "FATAL|No export entries" $dir/log || break
	ss -Htln "sport = :$port" | grep -q . && exit 0
	sleep 0.1
done
cat $dir/log >&2
exit 1
