package interop

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// nfsClient makes NFS calls from go-xdr's types, and takes the data of READ
// and WRITE out of the messages as the upper-layer binding says (RFC 8267).
type nfsClient struct {
	*rpcrdma.Client
	cred oncrpc.Auth
}

// nfsCall is one call. Sizes are in bytes.
type nfsCall struct {
	version, proc uint32
	args          io.WriterTo // nil when there are none
	// data, when not nil, takes the place of the empty opaque that ends args.
	data []byte
	// maxReply is the largest that the results may become, without the opaque
	// of up to room bytes that ends them when room is not 0.
	maxReply, room int
}

// do makes the call and returns the results' whole XDR stream.
func (c *nfsClient) do(ctx context.Context, n nfsCall) ([]byte, error) {
	call := rpcrdma.Call{
		Program: nfsv3.NFS_PROGRAM_PROGRAM_NUMBER, Version: n.version, Procedure: n.proc,
		Cred: c.cred, MaxReply: n.maxReply,
	}
	if n.args != nil {
		var b bytes.Buffer
		if _, err := n.args.WriteTo(&b); err != nil {
			return nil, err
		}
		call.Args = b.Bytes()
	}
	if n.data != nil {
		item, err := c.item(ctx, call.Args, n.data)
		if err != nil {
			return nil, err
		}
		defer item.Buf.Release()
		call.Items = []oncrpc.ReplyItem{item}
	}
	if n.room > 0 {
		buf, err := c.Alloc(ctx, xdr.Padded(n.room))
		if err != nil {
			return nil, err
		}
		defer buf.Release()
		call.Results = []rpcrdma.Result{{Buf: buf, Max: n.room}}
	}
	if err := c.Call(ctx, &call); err != nil {
		return nil, err
	}
	if n.room == 0 || call.Results[0].Apart == 0 {
		return call.Reply, nil
	}
	return together(call.Reply, &call.Results[0])
}

// item returns data as an item that follows args, and sets the length word at
// the end of args. args must end with an empty opaque.
func (c *nfsClient) item(ctx context.Context, args, data []byte) (oncrpc.ReplyItem, error) {
	at := len(args) - xdr.Unit
	if at < 0 || binary.BigEndian.Uint32(args[at:]) != 0 {
		return oncrpc.ReplyItem{}, errors.New("the arguments don't end with an empty opaque")
	}
	buf, err := c.Alloc(ctx, max(len(data), 1))
	if err != nil {
		return oncrpc.ReplyItem{}, err
	}
	binary.BigEndian.PutUint32(args[at:], uint32(len(data)))
	copy(buf.Bytes(), data)
	return oncrpc.ReplyItem{Pos: len(args), Buf: buf, Len: len(data)}, nil
}

// together puts a result that was placed apart back at the end of its stream.
func together(stream []byte, res *rpcrdma.Result) ([]byte, error) {
	if len(stream) < xdr.Unit {
		return nil, errors.New("a result was placed for which the reply has no length")
	}
	n := int(binary.BigEndian.Uint32(stream[len(stream)-xdr.Unit:]))
	if res.Apart < n || res.Apart > xdr.Padded(n) {
		return nil, fmt.Errorf("%d bytes were placed, the reply says %d", res.Apart, n)
	}
	return xdr.AppendFixed(stream, res.Buf.Bytes()[:n]), nil
}

// decodeAll decodes b. Bytes that are left over are an error.
func decodeAll[R any](b []byte, read func(io.Reader) (R, int64, error)) (R, error) {
	r := bytes.NewReader(b)
	res, _, err := read(r)
	if err == nil && r.Len() > 0 {
		err = fmt.Errorf("%d bytes are left after %T", r.Len(), res)
	}
	return res, err
}

// as returns the arm of a union that the test needs.
func as[R any](t *testing.T, union any) R {
	t.Helper()
	arm, ok := union.(R)
	if !ok {
		t.Fatalf("the server answered %T %+v, want %T", union, union, arm)
	}
	return arm
}

// noise returns n bytes that no other seed has (SplitMix64).
func noise(n int, seed uint64) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		seed += 0x9e3779b97f4a7c15
		z := (seed ^ seed>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		b = binary.LittleEndian.AppendUint64(b, z^z>>31)
	}
	return b[:n:n]
}

// sha returns b's checksum as sha256sum prints it.
func sha(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// firstDifference returns where two slices differ, for messages.
func firstDifference(a, b []byte) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%d and %d bytes, different from byte %d on", len(a), len(b), i)
		}
	}
	return fmt.Sprintf("%d and %d bytes", len(a), len(b))
}
