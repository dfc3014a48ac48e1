package nfstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Programs and procedures of which Files makes calls (RFC 1813 §3, appendix I).
const (
	Program      = 100003
	MountProgram = 100005
	Version3     = 3

	ProcMount   = 1
	ProcGetattr = 1
	ProcLookup  = 3
	ProcRead    = 6
	ProcWrite   = 7
	ProcCreate  = 8
	ProcRemove  = 12
	ProcCommit  = 21
)

// Stability of a WRITE (stable_how).
const (
	Unstable = 0
	FileSync = 2
)

// Sizes of parts of arguments and results, in bytes (RFC 1813 §2.3, §2.6).
const (
	MaxHandle = 64
	fattrSize = 84
	preSize   = 24 // wcc_attr
)

// StatusError is an NFS or MOUNT status other than success.
type StatusError uint32

func (s StatusError) Error() string { return fmt.Sprintf("NFS status %d", uint32(s)) }

// User is the credential of a user and a group.
func User(uid, gid uint32) oncrpc.Auth {
	sys := oncrpc.AuthSys{MachineName: []byte("nfstest"), UID: uid, GID: gid}
	return oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: sys.Append(nil)}
}

// Files makes calls of NFSv3 and MOUNT, and returns the mistakes in the answers as errors. If
// the status is not success, the error is a StatusError. Its methods may be called from any
// goroutine.
type Files struct{ Carrier }

// FilesOver makes calls over RDMA for a user and a group.
func FilesOver(rpc *rpcrdma.Client, uid, gid uint32) Files {
	return Files{RDMA{Client: rpc, Auth: User(uid, gid)}}
}

// Do makes a call and removes the status from its results. Without a Program and MaxReply the
// call is one of NFS, with short results.
func (f Files) Do(ctx context.Context, procedure uint32, call *Call) (xdr.Decoder, error) {
	call.Version, call.Procedure = Version3, procedure
	if call.Program == 0 {
		call.Program = Program
	}
	if call.MaxReply == 0 {
		call.MaxReply = headRoom
	}
	results, err := f.Call(ctx, call)
	if err != nil {
		return xdr.Decoder{}, err
	}
	d := xdr.NewDecoder(results)
	if s := d.Uint32(); s != 0 && d.Err() == nil {
		return d, StatusError(s)
	}
	return d, d.Err()
}

// Mount returns the root of an export.
func (f Files) Mount(ctx context.Context, path string) ([]byte, error) {
	d, err := f.Do(ctx, ProcMount, &Call{Program: MountProgram, Args: xdr.AppendString(nil, path)})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	return bytes.Clone(d.Opaque(MaxHandle)), d.Err()
}

// Lookup returns the handle of a name in a directory.
func (f Files) Lookup(ctx context.Context, dir []byte, name string) ([]byte, error) {
	d, err := f.Do(ctx, ProcLookup, &Call{Args: NameArgs(dir, name)})
	if err != nil {
		return nil, fmt.Errorf("lookup of %s: %w", name, err)
	}
	return bytes.Clone(d.Opaque(MaxHandle)), d.Err()
}

// Find mounts an export and looks up a file in it.
func (f Files) Find(ctx context.Context, export, name string) (root, file []byte, err error) {
	if root, err = f.Mount(ctx, export); err == nil {
		file, err = f.Lookup(ctx, root, name)
	}
	return root, file, err
}

// Getattr gets the attributes of a file or a directory.
func (f Files) Getattr(ctx context.Context, handle []byte) error {
	if _, err := f.Do(ctx, ProcGetattr, &Call{Args: xdr.AppendOpaque(nil, handle)}); err != nil {
		return fmt.Errorf("getattr: %w", err)
	}
	return nil
}

// Create creates a file, or opens it if it exists (UNCHECKED).
func (f Files) Create(ctx context.Context, dir []byte, name string) ([]byte, error) {
	args := xdr.AppendUint32(NameArgs(dir, name), 0) // UNCHECKED
	args = xdr.AppendUint32(xdr.AppendBool(args, true), 0o644)
	for range 5 {
		args = xdr.AppendUint32(args, 0) // uid, gid, size, atime, mtime: not set
	}
	d, err := f.Do(ctx, ProcCreate, &Call{Args: args})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if !d.Bool() {
		return nil, errors.New("create " + name + ": no handle in the reply")
	}
	return bytes.Clone(d.Opaque(MaxHandle)), d.Err()
}

// Verifier is a write verifier (writeverf3, RFC 1813 §3.3.7).
type Verifier [8]byte

// Write writes data. It fails unless the server takes all of it, as stably as asked.
func (f Files) Write(ctx context.Context, file []byte, offset uint64, data []byte, stable uint32) error {
	_, err := f.WriteVerifier(ctx, file, offset, data, stable)
	return err
}

// WriteVerifier is Write, and returns the write verifier.
func (f Files) WriteVerifier(ctx context.Context, file []byte, offset uint64, data []byte, stable uint32) (v Verifier, err error) {
	args := WriteArgs(file, offset, len(data), stable)
	items := []Item{{Pos: len(args), Len: len(data)}}
	args = xdr.AppendFixed(args, data)
	d, err := f.Do(ctx, ProcWrite, &Call{Args: args, Items: items})
	if err != nil {
		return v, fmt.Errorf("write: %w", err)
	}
	skipWCC(&d)
	n, committed := d.Uint32(), d.Uint32()
	copy(v[:], d.Fixed(len(v)))
	if d.Err() == nil && (int(n) != len(data) || committed < stable) {
		return v, fmt.Errorf("write: server took %d of %d bytes, with stability %d for %d", n, len(data), committed, stable)
	}
	return v, d.Err()
}

// Commit makes unstably written data durable.
func (f Files) Commit(ctx context.Context, file []byte) error {
	_, err := f.CommitVerifier(ctx, file)
	return err
}

// CommitVerifier is Commit, and returns the write verifier.
func (f Files) CommitVerifier(ctx context.Context, file []byte) (v Verifier, err error) {
	d, err := f.Do(ctx, ProcCommit, &Call{Args: ReadArgs(file, 0, 0)})
	if err != nil {
		return v, fmt.Errorf("commit: %w", err)
	}
	skipWCC(&d)
	copy(v[:], d.Fixed(len(v)))
	return v, d.Err()
}

// skipWCC skips the attributes of before and after a change (wcc_data).
func skipWCC(d *xdr.Decoder) {
	if d.Bool() {
		d.Fixed(preSize)
	}
	SkipAttributes(d)
}

// Content is the result of a READ.
type Content struct {
	Data   []byte
	EOF    bool // the file ends there
	Placed bool // the data came by RDMA Write
}

// Read reads up to n bytes at an offset.
func (f Files) Read(ctx context.Context, file []byte, offset uint64, n int) (Content, error) {
	call := &Call{Args: ReadArgs(file, offset, n), Reads: []int{n}}
	d, err := f.Do(ctx, ProcRead, call)
	if err != nil {
		return Content{}, fmt.Errorf("read: %w", err)
	}
	SkipAttributes(&d)
	count, eof := int(d.Uint32()), d.Bool()
	data := d.Opaque(n)
	if d.Err() == nil && count != len(data) {
		return Content{}, fmt.Errorf("read: count %d, data of %d bytes", count, len(data))
	}
	return Content{Data: data, EOF: eof, Placed: call.Apart[0] > 0}, d.Err()
}

// Remove removes a file.
func (f Files) Remove(ctx context.Context, dir []byte, name string) error {
	if _, err := f.Do(ctx, ProcRemove, &Call{Args: NameArgs(dir, name)}); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// NameArgs returns a name in a directory as arguments.
func NameArgs(dir []byte, name string) []byte {
	return xdr.AppendString(xdr.AppendOpaque(nil, dir), name)
}

// ReadArgs returns the arguments of a READ.
func ReadArgs(file []byte, offset uint64, n int) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(xdr.AppendOpaque(nil, file), offset), uint32(n))
}

// WriteArgs returns the arguments of a WRITE up to its n bytes of data.
func WriteArgs(file []byte, offset uint64, n int, stable uint32) []byte {
	args := xdr.AppendUint32(ReadArgs(file, offset, n), stable)
	return xdr.AppendUint32(args, uint32(n))
}

// SkipAttributes skips a post_op_attr.
func SkipAttributes(d *xdr.Decoder) {
	if d.Bool() {
		d.Fixed(fattrSize)
	}
}
