package nfs

import (
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// getattr is GETATTR (RFC 1813 §3.3.1).
func (r *request) getattr() error {
	handle := r.handle()
	if err := r.decoded(); err != nil {
		return err
	}
	o, err := r.object(handle)
	if err == nil {
		err = o.stat(&r.st)
		o.release()
	}
	if r.begin(err) {
		r.reply.Stream = r.srv.appendAttr(r.reply.Stream, &r.st)
	}
	return nil
}

// setattr is SETATTR (RFC 1813 §3.3.2).
func (r *request) setattr() error {
	handle := r.handle()
	attr := r.sattr()
	guarded := r.args.Bool()
	var guard nfsv3.Nfstime3
	if guarded {
		guard.Seconds, guard.Nseconds = r.args.Uint32(), r.args.Uint32()
	}
	if err := r.decoded(); err != nil {
		return err
	}
	o, err := r.object(handle)
	guarded = guarded && o != nil
	if guarded {
		o.guard.Lock()
	}
	c := r.change(o)
	if err == nil {
		err = r.guardedSetattr(o, &attr, guarded, guard)
	}
	if guarded { // before it waits for the disk: others that wait for this would fill the crowd
		o.guard.Unlock()
	}
	if err == nil {
		err = r.syncMetadata(o)
	}
	r.begin(err)
	r.appendWCC(&c)
	o.release()
	return nil
}

// guardedSetattr sets attributes of o, but does not bring them to stable storage. r.pre holds
// its recent attributes.
func (r *request) guardedSetattr(o *object, attr *sattr, guarded bool, guard nfsv3.Nfstime3) error {
	if err := r.changeable(o); err != nil {
		return err
	}
	if guarded && (uint32(r.pre.Ctim.Sec) != guard.Seconds || uint32(r.pre.Ctim.Nsec) != guard.Nseconds) {
		return errNotSync
	}
	return r.apply(o, attr, &r.pre)
}

// access is ACCESS (RFC 1813 §3.3.4).
func (r *request) access() error {
	handle := r.handle()
	want := r.args.Uint32()
	if err := r.decoded(); err != nil {
		return err
	}
	o, err := r.object(handle)
	var granted uint32
	if err == nil {
		err = o.stat(&r.st)
	}
	if err == nil {
		err = r.srv.asCaller(&r.cred, func() (err error) {
			granted, err = r.granted(o, want, &r.st)
			return err
		})
	}
	if r.begin(err) {
		r.appendPostOp(&r.st)
		r.reply.Stream = xdr.AppendUint32(r.reply.Stream, granted)
	} else {
		r.appendAttrOf(o)
	}
	o.release()
	return nil
}

// The rights that the bits of ACCESS need, for directories and for other objects. A bit
// that is not listed has no meaning there and is never granted.
var (
	dirAccess = [...]struct{ bits, right uint32 }{
		{nfsv3.ACCESS3_READ, mayRead},
		{nfsv3.ACCESS3_LOOKUP, mayExec},
		{nfsv3.ACCESS3_MODIFY | nfsv3.ACCESS3_EXTEND | nfsv3.ACCESS3_DELETE, mayWrite | mayExec},
	}
	fileAccess = [...]struct{ bits, right uint32 }{
		{nfsv3.ACCESS3_READ, mayRead},
		{nfsv3.ACCESS3_EXECUTE, mayExec},
		{nfsv3.ACCESS3_MODIFY | nfsv3.ACCESS3_EXTEND, mayWrite},
	}
)

// granted returns which of the rights in want the caller has on o, which has the attributes
// st. It asks the kernel once for all rights that the mode gives, and separately for each
// of the others, because access control lists may give more. The thread acts for the caller.
func (r *request) granted(o *object, want uint32, st *unix.Stat_t) (granted uint32, err error) {
	table := &fileAccess
	if o.isDir() {
		table = &dirAccess
	}
	likely := r.srv.rightsByMode(&r.cred, st)
	var bits, rights uint32
	for _, t := range table {
		if want&t.bits != 0 && r.isPossible(t.right, st) && t.right&^likely == 0 {
			bits, rights = bits|want&t.bits, rights|t.right
		}
	}
	if rights != 0 && r.srv.ask(o, &r.cred, rights) == nil {
		granted = bits
	}
	for _, t := range table {
		if want&t.bits&^granted == 0 || !r.isPossible(t.right, st) {
			continue
		}
		err := r.srv.ask(o, &r.cred, t.right)
		if err == nil {
			granted |= want & t.bits
		} else if !isOneOf(err, unix.EACCES, unix.EROFS, unix.EPERM, unix.ETXTBSY, errAccess) {
			return 0, err
		}
	}
	return granted, nil
}

// isPossible reports whether anybody can have a right on an object with the attributes st.
// Nobody can change a read-only export, and even root cannot execute a file without any
// execute bit.
func (r *request) isPossible(right uint32, st *unix.Stat_t) bool {
	if right&mayWrite != 0 && r.options.ReadOnly {
		return false
	}
	return right != mayExec || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o111 != 0
}
