# Starts the kernel's NFS server in the guest: /export, on tmpfs if nothing is
# mounted there, versions 3 and 4, over TCP (port 2049) and RDMA (port 20049), MOUNT on port 20048.
# rdma.sh must have run. Clients in the same guest mount 10.0.2.15: siw on the
# loopback interface has no usable address in 6.1.
set -e
/sbin/modprobe nfsd
# lockd's grace period, in which nobody gets a lock, would be 50 seconds.
echo 3 >/proc/sys/fs/nfs/nlm_timeout
echo 3 >/proc/sys/fs/nfs/nlm_grace_period
mkdir -p /export /run/rpcbind /var/lib/nfs/v4recovery
grep -q " /export " /proc/mounts || mount -t tmpfs -o size=75% tmpfs /export
mount -t nfsd nfsd /proc/fs/nfsd
touch /var/lib/nfs/etab /var/lib/nfs/rmtab
echo '/export *(rw,fsid=0,no_root_squash,no_subtree_check,insecure)' >/etc/exports
rpcbind
exportfs -a
rpc.mountd -p 20048
rpc.nfsd 4
echo "rdma 20049" >/proc/fs/nfsd/portlist
# No client of before is coming back: don't wait for it.
echo 1 >/proc/fs/nfsd/v4_end_grace
