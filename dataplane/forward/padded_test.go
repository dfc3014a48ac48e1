package forward

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// writeOp is a WRITE of NFSv4 up to its data, of n bytes.
func writeOp(n int) []byte { return enc(38, make([]byte, 16), 0, 0, 2, n) }

// TestPadded: what a client sends with padding (RDMA_MSGP), the upstream gets
// without, and its reply comes as ever.
func TestPadded(t *testing.T) {
	first, second := random(1501), random(2048)
	body := results(0, 3, 38, 0, 1501, 2, 7, 8, 38, 0, 2048, 2, 7, 8, gotRead(random(900)))
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		u := newUpstream(t)
		r := newRigWith(t, p, rpcrdma.ExtMSGP, u.address)
		r.settings.DDPMinChunk = 1 << 20
		r.settings.InlineSendMax, r.settings.InlineReceiveSize = 16384, 16384
		client := r.dial()
		up := u.accept()
		go func() {
			c := up.call()
			if want := compound(3, 38, make([]byte, 16), 0, 0, 2, string(first), 38, make([]byte, 16), 0, 0, 2, string(second), readOp(900)); !bytes.Equal(c.Args.Stream, want) {
				t.Errorf("the upstream got %d bytes of arguments, not the %d that were sent", len(c.Args.Stream), len(want))
			}
			up.send(success(c.XID, body), 0)
		}()
		call := &rpcrdma.Call{Program: nfsProgram, Version: 4, Procedure: 1, MaxReply: 2048}
		call.Args = compound(3, writeOp(len(first)))
		for _, data := range [][]byte{first, second} {
			buf, err := client.Alloc(t.Context(), len(data))
			if err != nil {
				t.Fatal(err)
			}
			defer buf.Release()
			copy(buf.Bytes(), data)
			if len(call.Items) > 0 {
				call.Args = append(call.Args, writeOp(len(data))...)
			}
			call.Items = append(call.Items, oncrpc.ReplyItem{Pos: len(call.Args), Buf: buf, Len: len(data)})
		}
		call.Args = append(call.Args, readOp(900)...)
		at := len(body) - 900 - 4
		buf, err := client.Alloc(t.Context(), 900)
		if err != nil {
			t.Fatal(err)
		}
		defer buf.Release()
		call.Results = []rpcrdma.Result{{Buf: buf, Max: 900, Find: func([]byte) int { return at }}}
		if err := client.Call(t.Context(), call); err != nil || !bytes.Equal(call.Reply, body) {
			t.Errorf("%d bytes of results, %v", len(call.Reply), err)
		}
		if pad := client.Info().Padding; pad.Sent != 1 || pad.Received != 1 {
			t.Errorf("not padded: %+v", pad)
		}
		if s := r.Stats(); s.Refused != 0 || s.BadReplies != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// padded appends an opaque to head, with its padding.
func padded(pad oncrpc.Padding, head []byte, opaque string) []byte {
	head = enc(head, len(opaque))
	return append(append(head, make([]byte, pad.Before(len(head), len(opaque)))...), enc(opaque)[4:]...)
}

// TestPaddedUnknown: padding that no binding can tell from the arguments does
// not go to the upstream.
func TestPaddedUnknown(t *testing.T) {
	pad := oncrpc.Padding{Align: 64, Thresh: 32, Base: 12}
	head := compound(2, writeOp(40))
	known := slices.Concat(head, make([]byte, pad.Before(len(head), 40)), make([]byte, 40))
	if len(known) == len(head)+40 {
		t.Fatal("nothing is padded")
	}
	for name, c := range map[string]oncrpc.Call{
		"program":   {Program: 4711, Version: 1, Args: oncrpc.Payload{Stream: known}},
		"version":   {Program: nfsProgram, Version: 5, Args: oncrpc.Payload{Stream: known}},
		"operation": {Program: nfsProgram, Version: 4, Procedure: 1, Args: oncrpc.Payload{Stream: slices.Concat(known, enc(4711))}},
		"layout":    {Program: 100005, Version: 3, Procedure: 1, Args: oncrpc.Payload{Stream: padded(pad, nil, "/a/directory/with/quite/a/long/name")}},
		"behind":    {Program: nfsProgram, Version: 3, Procedure: 1, Args: oncrpc.Payload{Stream: padded(pad, enc("handle"), "the arguments have ended long ago")}},
		"torn":      {Program: nfsProgram, Version: 4, Procedure: 1, Args: oncrpc.Payload{Stream: known}},
		"protected": {Program: nfsProgram, Version: 4, Procedure: 1, Args: oncrpc.Payload{Stream: known},
			Cred: oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: enc(1, 0, 1, 3, "context")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(New(Config{}), netip.AddrPort{}, newScriptConn())
			defer s.Close()
			c.XID, c.Args.Padding = 1, pad
			if err := serve(t.Context(), s, &c, new(oncrpc.Reply)); !errors.Is(err, errPadded) {
				t.Errorf("got %v", err)
			}
			if n := s.f.Stats().Refused; n != 1 {
				t.Errorf("%d refused", n)
			}
		})
	}
}
