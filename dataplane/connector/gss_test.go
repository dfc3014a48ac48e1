package connector

import (
	"bytes"
	"context"
	"testing"

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
// protected bodies whole: their checksum is over all of it.
func TestGSS(t *testing.T) {
	const privacy = 3
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
	for _, size := range []int{8, 3000, 9000} {
		msg := oncrpc.AppendCall(nil, &oncrpc.Call{
			XID: 0xabcd0000 + uint32(size), Program: 100003, Version: 3, Procedure: procWrite, Cred: gssCred(privacy),
			Verf: oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: []byte("sixteen bytes MIC")},
		})
		msg = xdr.AppendOpaque(msg, bytes.Repeat([]byte{0xee}, size))
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
			t.Errorf("%d bytes: reply %x, %v", size, reply, err)
		}
		if call := <-got; !bytes.Equal(call, msg) {
			t.Errorf("%d bytes: call %x", size, call)
		}
		if n := <-items; n != 0 {
			t.Errorf("%d bytes: %d items apart", size, n)
		}
	}
}
