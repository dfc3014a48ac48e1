package connector

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestLinksGetNoChunk: write chunks are offered up to the first READLINK; what
// comes from there on has its place in the reply.
func TestLinksGetNoChunk(t *testing.T) {
	read := func(args []byte, n uint32) []byte { // operation, stateid, offset, count
		return xdr.AppendUint32(append(xdr.AppendUint32(args, 25), make([]byte, 16+8)...), n)
	}
	args := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendString(nil, ""), 1), 3)
	args = read(args, 10000)
	args = xdr.AppendUint32(args, 27) // READLINK
	args = read(args, 20000)

	cl := &call{s: &session{c: &Connector{cfg: Config{Connector: spec.Connector{MaxReply: 1 << 20}}}}}
	cl.hdr = oncrpc.Call{Program: 100003, Version: 4, Procedure: 1, Args: oncrpc.Payload{Stream: args}}
	if err := cl.plan.Call(ulb.NewRegistry(nfs.Bindings()...), &cl.hdr); err != nil {
		t.Fatal(err)
	}
	if n := len(cl.plan.Results); n != 3 {
		t.Fatalf("%d results are eligible, want 3", n)
	}
	cl.planReply()
	if r := cl.rpc.Results; len(r) != 3 || r[0].Max != 10000 || r[1].Max != 0 || r[2].Max != 0 {
		t.Errorf("results apart: %+v, want the first alone", r)
	}
	if least := cl.plan.MaxReply + 4096 + 20000; cl.rpc.MaxReply < least || cl.rpc.MaxReply > rpcrdma.MaxMessage {
		t.Errorf("the reply may have %d bytes, want %d at least", cl.rpc.MaxReply, least)
	}
}
