package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// recipeVersion must change when a change of this package's code makes a
// different image from the same lists and packages.
const recipeVersion = 1

// SIWRequireCRC is the path of the siw build that requires CRC32C, relative to
// the guest's root. Load it with insmod; modprobe finds the plain build.
const SIWRequireCRC = "usr/lib/modules-crc/siw.ko"

// siwModule is the path at which depmod finds the plain build of siw.
const siwModule = "usr/lib/modules/%s/updates/siw.ko"

// recipe is the content of the initramfs. Paths are relative to the root.
type recipe struct {
	programs []string // copied with their libraries
	plugins  []string // glob patterns of libraries opened by name
	files    []string // glob patterns of files copied as they are
	modules  []string // kernel modules, with their dependencies
	libDirs  []string // directories that the loader searches, in order
}

var standard = recipe{
	programs: []string{
		"usr/bin/busybox", "usr/bin/kmod", "usr/sbin/modprobe", "usr/sbin/insmod",
		"usr/sbin/rmmod", "usr/sbin/ip", "usr/sbin/tc", "usr/bin/ss", "usr/bin/rdma",
		"usr/sbin/mount.nfs", "usr/sbin/umount.nfs", "usr/sbin/nfsstat", "usr/sbin/showmount",
		"usr/sbin/rpc.nfsd", "usr/sbin/rpc.mountd", "usr/sbin/exportfs",
		"usr/sbin/rpcbind", "usr/sbin/rpcinfo",
		"usr/bin/ganesha.nfsd", "usr/sbin/mke2fs", "usr/sbin/xfs_io", "usr/bin/getfattr", "usr/bin/setfattr",
		"usr/bin/rping", "usr/bin/ucmatose", "usr/bin/ib_send_bw", "usr/bin/ib_read_bw",
		"usr/bin/ib_write_bw", "usr/bin/fio",
	},
	plugins: []string{
		"usr/lib/x86_64-linux-gnu/libibverbs/libsiw-rdmav*.so",
		"usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so",
		"usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so",
	},
	files: []string{
		"etc/libibverbs.d/siw.driver", "etc/libibverbs.d/rxe.driver",
		"etc/netconfig", "etc/protocols", "etc/services", "etc/rpc",
	},
	modules: []string{
		"virtio_pci", "virtio_net", "virtio_console", "virtio_rng", "virtio_blk", "9p", "9pnet_virtio",
		"crc32c_generic", "crc32_generic", "sunrpc", "rpcrdma", "rdma_cm", "rdma_ucm", "ib_uverbs",
		"siw", "rdma_rxe", "nfsv3", "nfsv4", "nfsd", "sch_netem", "loop", "ext4", "veth",
	},
	libDirs: []string{"usr/lib/x86_64-linux-gnu", "usr/lib", "usr/lib64", "usr/lib/ganesha"},
}

// key returns the name of the image that this recipe makes from set.
func (r recipe) key(set Set) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%q\n%s\n%q\n", recipeVersion, r, set.Kernel, set.Debs)
	return hex.EncodeToString(h.Sum(nil))[:16]
}
