# Brings up a soft-iWARP device on the guest's network card and what NFS over
# RDMA and rping need. $siw is the module to use: "siw", or the path of a build.
set -e
# siw takes its CRC32C from the crypto layer and asks for it only once.
/sbin/modprobe crc32c_generic
case "$siw" in
/*) /sbin/modprobe -a ib_core ib_uverbs rdma_cm iw_cm libcrc32c && /sbin/insmod "$siw" ;;
*) /sbin/modprobe "$siw" ;;
esac
/sbin/modprobe -a sunrpc rpcrdma rdma_ucm nfsv3 nfsv4
rdma link add siw0 type siw netdev eth0
# Without it version 4 mounts fail with EINVAL.
mkdir -p /run/rpc_pipefs
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
mkdir -p /var/lib/nfs/sm
