package connector

import (
	"bytes"
	"context"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// gssCred is a credential of RPCSEC_GSS for data under a service.
func gssCred(service uint32) oncrpc.Auth {
	b := xdr.AppendUint32(nil, 1) // version
	b = xdr.AppendUint32(b, 0)    // RPCSEC_GSS_DATA
	b = xdr.AppendUint32(b, 77)   // sequence number
	b = xdr.AppendUint32(b, service)
	return oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: xdr.AppendString(b, "context")}
}

// TestGSS: calls and replies of RPCSEC_GSS are passed on to the byte, and
// protected bodies whole: their checksum is over all of it. One has room for all of a READ.
func TestGSS(t *testing.T) {
	const integrity, privacy, read = 2, 3, 1 << 20
	got := make(chan []byte, 1)
	items := make(chan int, 1)
	answers := make(chan []byte, 1)
	r := newRig(t, newLoopback(t), handlerFunc(func(_ context.Context, c *oncrpc.Call, reply *oncrpc.Reply) error {
		got <- append(oncrpc.AppendCall(nil, c), c.Args.Stream...)
		items <- len(c.Args.Items)
		reply.Stream = append(reply.Stream[:0], <-answers...)
		return nil
	}), Config{})
	nc, records := r.raw()
	sealed := func(n int) []byte { return xdr.AppendOpaque(nil, bytes.Repeat([]byte{0xee}, n)) }
	signed := xdr.AppendOpaque(xdr.AppendOpaque(nil, append([]byte("seq."), nfstest.ReadArgs([]byte("file"), 0, read)...)), make([]byte, 28))
	for _, c := range []struct {
		service, proc uint32
		args          []byte
		size          int
	}{
		{privacy, procWrite, sealed(8), 8}, {privacy, procWrite, sealed(3000), 3000}, {privacy, procWrite, sealed(9000), 9000},
		{privacy, procRead, sealed(100), read + 1000}, {integrity, procRead, signed, read + 200},
	} {
		size := c.size
		msg := oncrpc.AppendCall(nil, &oncrpc.Call{
			XID: 0xabcd0000 + uint32(size), Program: 100003, Version: 3, Procedure: c.proc, Cred: gssCred(c.service),
			Verf: oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: []byte("sixteen bytes MIC")},
		})
		msg = append(msg, c.args...)
		answer := oncrpc.AppendAcceptedReply(nil, 0xabcd0000+uint32(size))[:12]
		answer = xdr.AppendString(xdr.AppendUint32(answer, oncrpc.FlavorGSS), "another MIC")
		answer = append(xdr.AppendUint32(answer, 0), bytes.Repeat([]byte{0x77}, size)...)
		answers <- answer
		if _, err := nc.Write(frame(msg)); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
		reply, err := records.Read(nil)
		if err != nil || !bytes.Equal(reply, answer) {
			t.Errorf("%d bytes: reply of %d bytes, %x, %v", size, len(reply), reply[:min(len(reply), 48)], err)
		}
		if call := <-got; !bytes.Equal(call, msg) {
			t.Errorf("%d bytes: call of %d bytes, %x", size, len(call), call[:min(len(call), 48)])
		}
		if n := <-items; n != 0 {
			t.Errorf("%d bytes: %d items apart", size, n)
		}
	}
}
