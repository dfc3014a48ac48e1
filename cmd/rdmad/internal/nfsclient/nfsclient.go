// Package nfsclient is a small NFSv3 client (RFC 1813) for the demonstration and the daemon's
// tests. It mounts, and creates, writes, commits, reads and removes files over RPC-over-RDMA.
// The data of files moves by RDMA Read and Write.
package nfsclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Programs and procedures (RFC 1813 §3, appendix I).
const (
	program      = 100003
	mountProgram = 100005
	version      = 3

	procMount   = 1
	procGetattr = 1
	procRead    = 6
	procWrite   = 7
	procCreate  = 8
	procRemove  = 12
	procCommit  = 21
)

// Sizes of parts of arguments and results, in bytes.
const (
	maxHandle = 64
	fattrSize = 84
	preSize   = 24 // wcc_attr
	// maxReply is the largest reply without the data of READ.
	maxReply = 512
)

// Stability of a WRITE (stable_how).
const (
	Unstable = 0
	FileSync = 2
)

// StatusError is an NFS or MOUNT status other than success.
type StatusError uint32

func (s StatusError) Error() string { return fmt.Sprintf("NFS status %d", uint32(s)) }

// Client makes calls for one user on one connection. The caller owns the connection.
type Client struct {
	rpc  *rpcrdma.Client
	cred oncrpc.Auth
}

// New returns a client that makes calls for a user and a group.
func New(rpc *rpcrdma.Client, uid, gid uint32) *Client {
	sys := oncrpc.AuthSys{MachineName: []byte("rdmad"), UID: uid, GID: gid}
	return &Client{rpc: rpc, cred: oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: sys.Append(nil)}}
}

// Handle names a file or a directory.
type Handle []byte

// call makes a call and removes the status from its results.
func (c *Client) call(ctx context.Context, r *rpcrdma.Call) (xdr.Decoder, error) {
	r.Cred = c.cred
	r.MaxReply = maxReply
	if err := c.rpc.Call(ctx, r); err != nil {
		return xdr.Decoder{}, err
	}
	d := xdr.NewDecoder(r.Reply)
	if s := d.Uint32(); s != 0 && d.Err() == nil {
		return d, StatusError(s)
	}
	return d, d.Err()
}

func newCall(procedure uint32, args []byte) *rpcrdma.Call {
	return &rpcrdma.Call{Program: program, Version: version, Procedure: procedure, Args: args}
}

// Mount returns the root of an export.
func (c *Client) Mount(ctx context.Context, path string) (Handle, error) {
	d, err := c.call(ctx, &rpcrdma.Call{
		Program: mountProgram, Version: version, Procedure: procMount, Args: xdr.AppendString(nil, path),
	})
	if err != nil {
		return nil, fmt.Errorf("mount %s: %w", path, err)
	}
	h := Handle(d.Opaque(maxHandle))
	return h, d.Err()
}

// Getattr asks for the attributes of a file or a directory.
func (c *Client) Getattr(ctx context.Context, h Handle) error {
	if _, err := c.call(ctx, newCall(procGetattr, xdr.AppendOpaque(nil, h))); err != nil {
		return fmt.Errorf("getattr: %w", err)
	}
	return nil
}

// Create creates a file, or opens it if it exists (UNCHECKED).
func (c *Client) Create(ctx context.Context, dir Handle, name string) (Handle, error) {
	args := xdr.AppendString(xdr.AppendOpaque(nil, dir), name)
	args = xdr.AppendUint32(args, 0)     // UNCHECKED
	args = xdr.AppendBool(args, true)    // mode
	args = xdr.AppendUint32(args, 0o644) //
	for range 5 {
		args = xdr.AppendUint32(args, 0) // uid, gid, size, atime, mtime: not set
	}
	d, err := c.call(ctx, newCall(procCreate, args))
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	if !d.Bool() {
		return nil, errors.New("create " + name + ": no handle in the reply")
	}
	h := Handle(d.Opaque(maxHandle))
	return h, d.Err()
}

// Write writes the first n bytes of buf at an offset. It returns how many the server wrote.
func (c *Client) Write(ctx context.Context, h Handle, offset uint64, buf oncrpc.Buffer, n int, stable uint32) (int, error) {
	args := xdr.AppendUint64(xdr.AppendOpaque(nil, h), offset)
	args = xdr.AppendUint32(args, uint32(n))
	args = xdr.AppendUint32(args, stable)
	args = xdr.AppendUint32(args, uint32(n)) // length of the data
	r := newCall(procWrite, args)
	r.Items = []oncrpc.ReplyItem{{Pos: len(args), Buf: buf, Len: n}}
	d, err := c.call(ctx, r)
	if err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	if d.Bool() {
		d.Fixed(preSize)
	}
	attributes(&d)
	count := int(d.Uint32())
	if d.Err() == nil && (count < 1 || count > n) && n > 0 {
		return 0, fmt.Errorf("write: server took %d of %d bytes", count, n)
	}
	return count, d.Err()
}

// Commit makes unstably written data durable.
func (c *Client) Commit(ctx context.Context, h Handle) error {
	args := xdr.AppendUint64(xdr.AppendOpaque(nil, h), 0)
	args = xdr.AppendUint32(args, 0) // to the end
	if _, err := c.call(ctx, newCall(procCommit, args)); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Read reads up to n bytes at an offset into buf, which must have room for n+3. It returns
// how many it read, and whether the file ends there.
func (c *Client) Read(ctx context.Context, h Handle, offset uint64, buf oncrpc.Buffer, n int) (int, bool, error) {
	args := xdr.AppendUint64(xdr.AppendOpaque(nil, h), offset)
	r := newCall(procRead, xdr.AppendUint32(args, uint32(n)))
	r.Results = []rpcrdma.Result{{Buf: buf, Max: n}}
	d, err := c.call(ctx, r)
	if err != nil {
		return 0, false, fmt.Errorf("read: %w", err)
	}
	attributes(&d)
	count, eof := int(d.Uint32()), d.Bool()
	length := d.Length(n)
	switch apart := r.Results[0].Apart; {
	case d.Err() != nil:
		return 0, false, d.Err()
	case count != length || apart > 0 && apart < length:
		return 0, false, fmt.Errorf("read: count %d, data of %d bytes, %d of them placed", count, length, apart)
	case apart == 0:
		copy(buf.Bytes(), d.Fixed(length))
	}
	return count, eof, d.Err()
}

// Remove removes a file.
func (c *Client) Remove(ctx context.Context, dir Handle, name string) error {
	if _, err := c.call(ctx, newCall(procRemove, xdr.AppendString(xdr.AppendOpaque(nil, dir), name))); err != nil {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// attributes skips a post_op_attr.
func attributes(d *xdr.Decoder) {
	if d.Bool() {
		d.Fixed(fattrSize)
	}
}
