# Starts nfs-ganesha, which speaks NFS over TCP alone, in the guest: versions
# 4.0, 4.1 and 4.2 on port $port, of the file system on /ganesha, again if it was
# killed before. rdma.sh must have run. Its back end VFS grants no delegations and
# has no extended attributes.
set -e
dir=/run/ganesha
mkdir -p $dir /var/lib/nfs/ganesha /run/rpcbind
ln -sf /proc/self/mounts /etc/mtab
pidof rpcbind >/dev/null || rpcbind
# A short lease is renewed many times in a test of minutes. Clients of before have
# longer to come back: on a busy machine ganesha needs much of it to start.
cat >$dir/ganesha.conf <<-END
NFS_CORE_PARAM {
	NFS_Port = $port;
	Protocols = 4;
	Enable_NLM = false;
	Enable_RQUOTA = false;
	DRC_Disabled = true;
}
NFS_KRB5 {
	Active_krb5 = false;
}
NFSV4 {
	Lease_Lifetime = 20;
	Grace_Period = 30;
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
[ ! -e $dir/log ] || mv $dir/log $dir/log.before
rm -f $dir/ended
# Ganesha 4.3 breaks now and then (a null pointer, after locks of version 4.0 and 4.1 on one file). It
# is then started again, as a service manager would do, and clients take their locks up again.
(
	code=139 # by SIGSEGV
	while [ $code = 139 ]; do
		code=0
		ganesha.nfsd -F -f $dir/ganesha.conf -L $dir/log -p $dir/pid -N NIV_EVENT || code=$?
		[ $code != 139 ] || { cat /proc/uptime >>$dir/crashes; mv $dir/log $dir/log.before; }
	done
	: >$dir/ended
) </dev/null >/dev/null 2>&1 &
for i in $(seq 1800); do
	[ ! -e $dir/ended ] || break
	! grep -qsE "FATAL|No export entries" $dir/log || break
	ss -Htln "sport = :$port" | grep -q . && exit 0
	sleep 0.1
done
cat $dir/log >&2
exit 1
