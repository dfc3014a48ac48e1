package nfs

import (
	"encoding/binary"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// ftypes are the ftype3 of modes, by the bits of S_IFMT (RFC 1813 §2.6).
var ftypes = [unix.S_IFMT>>12 + 1]nfsv3.Ftype3{
	unix.S_IFREG >> 12: nfsv3.NF3REG, unix.S_IFDIR >> 12: nfsv3.NF3DIR, unix.S_IFBLK >> 12: nfsv3.NF3BLK, unix.S_IFCHR >> 12: nfsv3.NF3CHR,
	unix.S_IFLNK >> 12: nfsv3.NF3LNK, unix.S_IFSOCK >> 12: nfsv3.NF3SOCK, unix.S_IFIFO >> 12: nfsv3.NF3FIFO,
}

// fileID returns the number of an object within the export. If one mount shows several
// devices (overlayfs, btrfs), the device is part of the number.
func (s *subtree) fileID(ino, dev uint64) uint64 {
	if s.top == nil || dev == s.top.dev {
		return ino
	}
	return ino ^ dev<<40
}

// appendAttr appends a fattr3.
func (s *subtree) appendAttr(dst []byte, st *unix.Stat_t) []byte {
	var b [nfsv3.Fattr3EncodedSizeBytes]byte
	be := binary.BigEndian
	be.PutUint32(b[0:], uint32(max(ftypes[st.Mode&unix.S_IFMT>>12], nfsv3.NF3REG)))
	be.PutUint32(b[4:], st.Mode&0o7777)
	be.PutUint32(b[8:], uint32(st.Nlink))
	be.PutUint32(b[12:], st.Uid)
	be.PutUint32(b[16:], st.Gid)
	be.PutUint64(b[20:], uint64(st.Size))
	be.PutUint64(b[28:], uint64(st.Blocks)*512)
	be.PutUint32(b[36:], unix.Major(st.Rdev))
	be.PutUint32(b[40:], unix.Minor(st.Rdev))
	be.PutUint64(b[44:], s.fsid)
	be.PutUint64(b[52:], s.fileID(st.Ino, st.Dev))
	putTime(b[60:], st.Atim)
	putTime(b[68:], st.Mtim)
	putTime(b[76:], st.Ctim)
	return append(dst, b[:]...)
}

// putTime encodes an nfstime3: unsigned seconds since 1970, and nanoseconds.
func putTime(b []byte, t unix.Timespec) {
	binary.BigEndian.PutUint32(b, uint32(t.Sec))
	binary.BigEndian.PutUint32(b[4:], uint32(t.Nsec))
}

// appendPostOp appends a post_op_attr with st.
func (r *request) appendPostOp(st *unix.Stat_t) {
	r.reply.Stream = r.srv.appendAttr(xdr.AppendUint32(r.reply.Stream, 1), st)
}

// appendNone appends an empty post_op_attr, pre_op_attr or post_op_fh3.
func (r *request) appendNone() {
	r.reply.Stream = xdr.AppendUint32(r.reply.Stream, 0)
}

// appendAttrOf appends a post_op_attr of an object, which may be nil.
func (r *request) appendAttrOf(o *object) {
	if o == nil || o.stat(&r.st) != nil {
		r.appendNone()
		return
	}
	r.appendPostOp(&r.st)
}

// appendHandle appends a post_op_fh3.
func (r *request) appendHandle(h *fh.Handle) {
	r.reply.Stream = xdr.AppendUint32(r.reply.Stream, 1)
	r.reply.Stream = xdr.AppendOpaque(r.reply.Stream, h.Bytes())
}

// change is a modification of an object in progress, for its wcc_data.
type change struct {
	o     *object // nil: nothing was resolved
	token uint32
	pre   bool // before holds
	size  int64
	mtime unix.Timespec
	ctime unix.Timespec
}

// change begins a modification of o and gets its attributes into r.pre. If it fails, r.pre
// has no links.
func (r *request) change(o *object) change {
	c := change{o: o}
	if o == nil {
		return c
	}
	c.token, c.pre = o.mods.begin()
	if unix.Fstat(o.path, &r.pre) != nil {
		c.pre, r.pre = false, unix.Stat_t{}
	}
	c.size, c.mtime, c.ctime = r.pre.Size, r.pre.Mtim, r.pre.Ctim
	return c
}

// changeable returns why o can't be changed: the export is read-only, or change found no
// links of o.
func (r *request) changeable(o *object) error {
	if err := r.writable(); err != nil || r.pre.Nlink > 0 {
		return err
	}
	if err := o.stat(&r.st); err != nil {
		return err
	}
	return errStale
}

// appendWCC ends the modification and appends its wcc_data. It includes the earlier
// attributes only if no other modification overlapped this one.
func (r *request) appendWCC(c *change) {
	if c.o == nil {
		r.appendNone()
		r.appendNone()
		return
	}
	err := c.o.stat(&r.st)
	if alone := c.o.mods.end(c.token); alone && c.pre && err == nil {
		var b [4 + nfsv3.WccAttrEncodedSizeBytes]byte
		b[3] = 1
		binary.BigEndian.PutUint64(b[4:], uint64(c.size))
		putTime(b[12:], c.mtime)
		putTime(b[20:], c.ctime)
		r.reply.Stream = append(r.reply.Stream, b[:]...)
	} else {
		r.appendNone()
	}
	if err != nil {
		r.appendNone()
		return
	}
	r.appendPostOp(&r.st)
}
