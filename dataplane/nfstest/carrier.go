package nfstest

import (
	"context"
	"fmt"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Sizes of the headers of RPC messages without credentials and verifiers, in
// bytes (RFC 5531 §9).
const (
	callHeader  = 40
	replyHeader = oncrpc.AcceptedReplySize
)

// Call is an NFS call.
type Call struct {
	Program, Version, Procedure uint32
	// Args has the arguments.
	Args []byte
	// Items has the opaques of Args that may be moved separately, in order.
	Items []Item
	// Reads has the largest size of each READ's data, in order, in bytes.
	Reads []int
	// MaxReply is the largest size of the results without this data, in bytes.
	MaxReply int
	// Apart is set to the number of bytes of each READ's data that came in the
	// write chunk offered for it.
	Apart []int
}

// Item is an opaque in arguments: the position of its first byte, and its length.
type Item struct{ Pos, Len int }

// Carrier makes calls and returns their results as one stream.
type Carrier interface {
	Call(ctx context.Context, c *Call) ([]byte, error)
	// Cred returns the size of the credential's body, in bytes.
	Cred() int
}

// TCP carries calls on TCP; Client has Auth as its credential.
type TCP struct {
	Client *rpctcp.Client
	Auth   oncrpc.Auth
}

// Call implements Carrier.
func (c TCP) Call(ctx context.Context, call *Call) ([]byte, error) {
	call.Apart = make([]int, len(call.Reads))
	return c.Client.Call(ctx, call.Program, call.Version, call.Procedure, call.Args, nil)
}

// Cred implements Carrier.
func (c TCP) Cred() int { return len(c.Auth.Body) }

// RDMA carries calls over RPC-over-RDMA, with a write chunk for each READ.
type RDMA struct {
	Client *rpcrdma.Client
	Auth   oncrpc.Auth
}

// Cred implements Carrier.
func (c RDMA) Cred() int { return len(c.Auth.Body) }

// Call implements Carrier.
func (c RDMA) Call(ctx context.Context, call *Call) ([]byte, error) {
	rpc := rpcrdma.Call{
		Program: call.Program, Version: call.Version, Procedure: call.Procedure, Cred: c.Auth,
		MaxReply: call.MaxReply,
	}
	done := 0 // bytes of call.Args already put into the stream or an item
	for _, it := range call.Items {
		buf, err := c.Client.Alloc(ctx, it.Len)
		if err != nil {
			return nil, err
		}
		defer buf.Release()
		copy(buf.Bytes(), call.Args[it.Pos:][:it.Len])
		rpc.Args = append(rpc.Args, call.Args[done:it.Pos]...)
		rpc.Items = append(rpc.Items, oncrpc.ReplyItem{Pos: len(rpc.Args), Buf: buf, Len: it.Len})
		done = it.Pos + xdr.Padded(it.Len)
	}
	rpc.Args = append(rpc.Args, call.Args[done:]...)
	for _, n := range call.Reads {
		buf, err := c.Client.Alloc(ctx, xdr.Padded(n))
		if err != nil {
			return nil, err
		}
		defer buf.Release()
		rpc.Results = append(rpc.Results, rpcrdma.Result{Buf: buf, Max: n})
	}
	if err := c.Client.Call(ctx, &rpc); err != nil {
		return nil, err
	}
	apart := make([][]byte, len(rpc.Results))
	call.Apart = make([]int, len(rpc.Results))
	for i, r := range rpc.Results {
		apart[i], call.Apart[i] = r.Buf.Bytes()[:r.Apart], r.Apart
	}
	return assemble(call, rpc.Reply, apart)
}

// assemble puts the data of READs where they belong in results: that of the
// i-th READ of which there is data came in the i-th chunk (RFC 5666 §3.6), or
// is in the stream.
func assemble(c *Call, results []byte, apart [][]byte) ([]byte, error) {
	a := assembler{d: xdr.NewDecoder(results), in: results, apart: apart}
	if c.Version == 3 {
		a.read3()
	} else {
		a.compound()
	}
	if a.err == nil {
		a.err = a.d.Err()
	}
	return append(a.out, results[a.done:]...), a.err
}

type assembler struct {
	d     xdr.Decoder
	in    []byte
	done  int // bytes of in that are in out
	out   []byte
	apart [][]byte
	err   error
}

// data passes over the data of a READ.
func (a *assembler) data() {
	n := int(a.d.Uint32())
	if len(a.apart) == 0 || len(a.apart[0]) == 0 {
		a.d.Fixed(n)
	} else {
		data := a.apart[0]
		if len(data) != n && len(data) != xdr.Padded(n) {
			a.err = fmt.Errorf("a READ of %d bytes, of which %d came by RDMA Write", n, len(data))
			return
		}
		a.out = append(a.out, a.in[a.done:a.d.Offset()]...)
		a.out = xdr.AppendFixed(a.out, data[:n])
		a.done = a.d.Offset()
	}
	if len(a.apart) > 0 {
		a.apart = a.apart[1:]
	}
}

func (a *assembler) read3() {
	status := a.d.Uint32()
	if len(a.apart) == 0 || status != 0 {
		return
	}
	SkipAttributes(&a.d)
	a.d.Uint32()
	a.d.Bool()
	a.data()
}

// compound passes over the results of operations that a strict client makes
// together with READs.
func (a *assembler) compound() {
	a.d.Uint32()
	a.d.Opaque(len(a.in))
	for range a.d.Uint32() {
		op, status := a.d.Uint32(), a.d.Uint32()
		if len(a.apart) == 0 || a.err != nil || a.d.Err() != nil || status != 0 {
			return
		}
		switch op {
		case 53: // SEQUENCE
			a.d.Fixed(36)
		case 38: // WRITE
			a.d.Fixed(16)
		case 25: // READ
			a.d.Bool()
			a.data()
		case 15, 22, 24: // LOOKUP, PUTFH, PUTROOTFH
		case 18: // OPEN: of a strict client without a delegation
			a.d.Fixed(16 + 20 + 4)
			a.d.Fixed(4 * int(a.d.Uint32()))
			a.d.Uint32()
		default:
			a.err = fmt.Errorf("operation %d among READs", op)
		}
	}
}
