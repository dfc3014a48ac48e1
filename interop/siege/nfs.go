package siege

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Sizes in replies, in bytes (RFC 1813 §2.3, §2.6).
const (
	maxHandle = 64
	fattrSize = 84
	preSize   = 24 // wcc_attr
	headRoom  = 512
)

// status is an NFS or MOUNT status other than success.
type status uint32

func (s status) Error() string { return fmt.Sprintf("NFS status %d", uint32(s)) }

// client makes NFSv3 calls over RDMA or TCP.
type client struct{ nfstest.Carrier }

// dialTCP makes an NFS client on a new TCP connection.
func dialTCP(ctx context.Context, from net.IP, address string) (client, *rpctcp.Client, error) {
	conn, err := dial(ctx, from, address)
	if err != nil {
		return client{}, nil, err
	}
	rpc := rpctcp.NewClient(conn, rpctcp.ClientConfig{Cred: rootAuth()})
	return client{nfstest.TCP{Client: rpc, Auth: rootAuth()}}, rpc, nil
}

// results makes a call and decodes the status of its results.
func (c client) results(ctx context.Context, call nfstest.Call) (xdr.Decoder, error) {
	call.Version = version3
	call.MaxReply = headRoom
	b, err := c.Call(ctx, &call)
	if err != nil {
		return xdr.Decoder{}, err
	}
	d := xdr.NewDecoder(b)
	if s := d.Uint32(); s != 0 && d.Err() == nil {
		return d, status(s)
	}
	return d, d.Err()
}

func (c client) nfs(ctx context.Context, procedure uint32, args []byte) (xdr.Decoder, error) {
	return c.results(ctx, nfstest.Call{Program: nfsProgram, Procedure: procedure, Args: args})
}

// mount returns the handle of the export's root.
func (c client) mount(ctx context.Context) ([]byte, error) {
	d, err := c.results(ctx, nfstest.Call{Program: mountProgram, Procedure: procMount, Args: xdr.AppendString(nil, "/export")})
	if err != nil {
		return nil, fmt.Errorf("mount: %w", err)
	}
	return bytes.Clone(d.Opaque(maxHandle)), d.Err()
}

// lookup returns the handle of a name in a directory.
func (c client) lookup(ctx context.Context, dir []byte, name string) ([]byte, error) {
	d, err := c.nfs(ctx, procLookup, xdr.AppendString(xdr.AppendOpaque(nil, dir), name))
	if err != nil {
		return nil, fmt.Errorf("lookup of %s: %w", name, err)
	}
	return bytes.Clone(d.Opaque(maxHandle)), d.Err()
}

func (c client) getattr(ctx context.Context, file []byte) error {
	_, err := c.nfs(ctx, procGetattr, xdr.AppendOpaque(nil, file))
	return err
}

// read returns n bytes of a file, or fewer at its end.
func (c client) read(ctx context.Context, file []byte, offset uint64, n int) ([]byte, error) {
	d, err := c.results(ctx, nfstest.Call{Program: nfsProgram, Procedure: procRead, Args: readArgs(file, offset, n), Reads: []int{n}})
	if err != nil {
		return nil, err
	}
	if d.Bool() {
		d.Fixed(fattrSize)
	}
	d.Uint32()
	d.Bool()
	return d.Opaque(n), d.Err()
}

// write writes data. It fails unless the server took all of it.
func (c client) write(ctx context.Context, file []byte, offset uint64, data []byte) error {
	args := writeArgs(file, offset, len(data))
	d, err := c.results(ctx, nfstest.Call{
		Program: nfsProgram, Procedure: procWrite, Args: append(args, data...), Items: []nfstest.Item{{Pos: len(args), Len: len(data)}},
	})
	if err != nil {
		return err
	}
	if d.Bool() {
		d.Fixed(preSize)
	}
	if d.Bool() {
		d.Fixed(fattrSize)
	}
	if n := d.Uint32(); d.Err() == nil && int(n) != len(data) {
		return fmt.Errorf("%d of %d bytes taken", n, len(data))
	}
	return d.Err()
}

// find mounts the export and looks up a file in it.
func (c client) find(ctx context.Context, name string) (root, file []byte, err error) {
	if root, err = c.mount(ctx); err == nil {
		file, err = c.lookup(ctx, root, name)
	}
	return root, file, err
}

// handle returns the handle of the large file for an attacker.
func (f *field) handle(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, rpc, err := dialTCP(ctx, fromOne, f.target.TCP)
	if err != nil {
		return nil, err
	}
	defer rpc.Close()
	_, file, err := c.find(ctx, largeFile)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// isStatus reports whether err is a status in rdmad's reply.
func isStatus(err error) bool {
	var s status
	return errors.As(err, &s)
}
