package forward

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
)

const readMax = 8 << 10

// readCall is an NFSv3 READ of up to readMax bytes into a write chunk.
func readCall(t testing.TB, c *rpcrdma.Client) *rpcrdma.Call {
	t.Helper()
	return readSome(t, c, readMax)
}

// readSome is readCall for up to n bytes.
func readSome(t testing.TB, c *rpcrdma.Client, n int) *rpcrdma.Call {
	t.Helper()
	buf, err := c.Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(buf.Release)
	return &rpcrdma.Call{
		Program: nfsProgram, Version: 3, Procedure: 6, Args: enc("handle42", 0, 0, n), MaxReply: 256,
		Results: []rpcrdma.Result{{Buf: buf, Max: n}},
	}
}

// didRead is the result of a READ.
func didRead(data string) []byte { return enc(0, 0, len(data), 1, data) }

// TestBadReplies: what is wrong with one reply is that call's alone.
func TestBadReplies(t *testing.T) {
	data := strings.Repeat("some data ", 500)
	system := &oncrpc.AcceptError{Stat: oncrpc.SystemErr}
	for name, c := range map[string]struct {
		script         func(p *peer, xid uint32)
		want           error // nil: data comes
		bad, strays    uint64
		dontCompareErr bool
	}{
		"good":              {func(p *peer, xid uint32) { p.send(success(xid, didRead(data)), 0) }, nil, 0, 0, false},
		"in tiny fragments": {func(p *peer, xid uint32) { p.send(success(xid, didRead(data)), 3) }, nil, 0, 0, false},
		"with empty fragments": {func(p *peer, xid uint32) {
			p.write(enc(0, 0))
			p.send(success(xid, didRead(data)), 1000)
		}, nil, 0, 0, false},
		"twice": {func(p *peer, xid uint32) {
			p.send(success(xid, didRead(data)), 0)
			p.send(success(xid, didRead("other")), 0)
		}, nil, 0, 1, false},
		"after one of another XID": {func(p *peer, xid uint32) {
			p.send(success(xid+1, didRead("other")), 0)
			p.send(success(xid-1, strings.Repeat("x", 100<<10)), 0)
			p.send(success(xid, didRead(data)), 0)
		}, nil, 0, 2, false},
		"PROG_UNAVAIL":  {func(p *peer, xid uint32) { p.send(enc(xid, 1, 0, 0, 0, 1), 0) }, &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}, 0, 0, false},
		"PROG_MISMATCH": {func(p *peer, xid uint32) { p.send(enc(xid, 1, 0, 0, 0, 2, 2, 4), 0) }, &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: 2, High: 4}, 0, 0, false},
		"AUTH_ERROR":    {func(p *peer, xid uint32) { p.send(enc(xid, 1, 1, 1, 5), 0) }, &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}, 0, 0, false},

		"header cut":            {func(p *peer, xid uint32) { p.send(enc(xid, 1, 0, 0), 0) }, system, 1, 0, false},
		"header cut, fragments": {func(p *peer, xid uint32) { p.send(enc(xid, 1, 0, 0, 0), 4) }, system, 1, 0, false},
		"verifier too long":     {func(p *peer, xid uint32) { p.send(enc(xid, 1, 0, 6, 401, make([]byte, 404), 0), 0) }, system, 1, 0, false},
		"verifier past the end": {func(p *peer, xid uint32) { p.send(enc(xid, 1, 0, 6, 400, 0), 0) }, system, 1, 0, false},
		"more than asked for":   {func(p *peer, xid uint32) { p.send(success(xid, didRead(strings.Repeat("x", readMax+1))), 0) }, system, 1, 0, false},
		"data past the end":     {func(p *peer, xid uint32) { p.send(success(xid, 0, 0, 5000, 1, 5000, "x"), 0) }, system, 1, 0, false},
		"data past the end, fragments": {func(p *peer, xid uint32) {
			p.send(success(xid, 0, 0, 5000, 1, 5000, make([]byte, 4000)), 512)
		}, system, 1, 0, false},
		"without its roundup": {func(p *peer, xid uint32) { p.send(append(success(xid, 0, 0, 5, 1, 5), "12345"...), 7) }, system, 1, 0, false},
		"no boolean":          {func(p *peer, xid uint32) { p.send(success(xid, 0, 2, 1, 1, "x"), 0) }, system, 1, 0, false},
		"empty":               {func(p *peer, xid uint32) { p.send(success(xid), 0) }, system, 1, 0, false},
		"longer than chunks and inline": {func(p *peer, xid uint32) {
			p.send(enc(xid, 1, 0, 0, 0, 1, make([]byte, 6000)), 0)
		}, &rpcrdma.PeerError{}, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t)
			r := newRig(t, loopback.New(loopback.Config{}), u.address)
			client := r.dial()
			p := u.accept()
			call := readCall(t, client)
			said := make(chan struct{})
			go func() {
				defer close(said)
				c.script(p, p.call().XID)
			}()
			err := client.Call(t.Context(), call)
			<-said // what comes after the reply stands before the next one
			switch {
			case c.want == nil && err == nil:
				got := call.Results[0].Buf.Bytes()[:call.Results[0].Apart]
				if string(got) != data {
					t.Errorf("%d bytes of %d, or others", len(got), len(data))
				}
			case c.dontCompareErr:
				if _, ok := errors.AsType[*rpcrdma.PeerError](err); !ok {
					t.Errorf("%v, want an answer of the transport", err)
				}
				if n := r.d.Connections()[0].Stats.RepliesTooLong; n != 1 {
					t.Errorf("%d replies too long", n)
				}
			case c.want == nil || err == nil || err.Error() != c.want.Error():
				t.Errorf("%v, want %v", err, c.want)
			}
			done := make(chan error, 1)
			go func() { done <- client.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}) }()
			p.send(success(p.call().XID), 0)
			if err := <-done; err != nil {
				t.Errorf("the next call: %v", err)
			}
			if s := r.Stats(); s.BadReplies != c.bad || s.Strays != c.strays || s.Lost != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestBadStreams: an upstream that is out of step, or gone, loses its
// connection, and the client's ends with it for a reason that says so.
func TestBadStreams(t *testing.T) {
	for name, c := range map[string]struct {
		script func(p *peer, xid uint32)
		want   string
	}{
		"no RPC message":  {func(p *peer, xid uint32) { p.send(enc(xid, 7, 0, 0), 0) }, "a record that is not an RPC message"},
		"short record":    {func(p *peer, _ uint32) { p.send(enc(1), 0) }, "a record that is not an RPC message"},
		"record too long": {func(p *peer, _ uint32) { p.write(enc(0xffffffff)) }, "oncrpc: record larger than the limit"},
		"fragments without end": {func(p *peer, xid uint32) {
			p.write(oncrpc.AppendRecordMark(nil, 8, false))
			p.write(enc(xid, 1, make([]byte, 4*5000)))
		}, "oncrpc: record has too many fragments"},
		"fragments over the limit": {func(p *peer, xid uint32) {
			msg := success(xid, make([]byte, 100<<10))
			p.write(append(oncrpc.AppendRecordMark(nil, len(msg), false), msg...))
			p.write(oncrpc.AppendRecordMark(nil, int(Config{}.withDefaults().MaxRecord), true))
		}, "oncrpc: record larger than the limit"},
		"torn in the mark":   {func(p *peer, _ uint32) { p.write([]byte{0x80, 0}); p.Close() }, "unexpected EOF"},
		"torn in the header": {func(p *peer, xid uint32) { p.write(record(success(xid), 0)[:20]); p.Close() }, "unexpected EOF"},
		"torn in the data": {func(p *peer, xid uint32) {
			p.write(record(success(xid, didRead(strings.Repeat("x", 5000))), 0)[:3000])
			p.Close()
		}, "unexpected EOF"},
		"reset in the data": {func(p *peer, xid uint32) {
			p.write(record(success(xid, didRead(strings.Repeat("x", 5000))), 0)[:3000])
			p.Conn.(*net.TCPConn).SetLinger(0)
			p.Close()
		}, "connection reset by peer"},
		"reset before the results": {func(p *peer, xid uint32) {
			p.write(record(success(xid, didRead("data")), 0)[:len(record(success(xid), 0))])
			p.Conn.(*net.TCPConn).SetLinger(0)
			p.Close()
		}, "connection reset by peer"},
		"closed":                {func(p *peer, _ uint32) { p.Close() }, "closed its connection"},
		"a call without header": {func(p *peer, _ uint32) { p.send(enc(5, 0, 2, 1), 0) }, "a record that is not an RPC message"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t)
			r := newRig(t, loopback.New(loopback.Config{}), u.address)
			client := r.dial()
			p := u.accept()
			call := readCall(t, client)
			go func() { c.script(p, p.call().XID) }()
			if err := client.Call(t.Context(), call); err == nil {
				t.Error("answered")
			} else if _, ok := errors.AsType[*oncrpc.AcceptError](err); ok {
				t.Errorf("answered with %v", err)
			}
			if why := r.down(); !strings.Contains(why, "upstream "+u.address+": ") || !strings.Contains(why, c.want) {
				t.Errorf("the connection ended for %q", why)
			}
			if s := r.Stats(); s.Lost != 1 || s.BadReplies != 0 {
				t.Errorf("%+v", s)
			}
			if !r.logged("upstream connection lost", "unanswered=1") {
				t.Error("not logged")
			}
			second := r.dial() // has an upstream connection of its own
			go func() { p2 := u.accept(); p2.send(success(p2.call().XID), 0) }()
			if err := second.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNeverAnswers: one call without an answer ends its connection, as the
// client is to make it again, and no other.
func TestNeverAnswers(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address, func(c *Config) { c.CallTimeout = time.Second })
	silent := r.dial()
	u.accept()
	other := r.dial()
	p := u.accept()
	if err := silent.Call(t.Context(), readCall(t, silent)); err == nil {
		t.Error("answered")
	}
	if why := r.down(); !strings.Contains(why, "no answer to call") {
		t.Errorf("ended for %q", why)
	}
	r.cfg.CallTimeout = time.Hour // a busy machine takes long for an answer
	go func() { p.send(success(p.call().XID), 0) }()
	if err := other.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
		t.Error(err)
	}
	if s := r.Stats(); s.Timeouts != 1 || s.Lost != 1 {
		t.Errorf("%+v", s)
	}
}

// TestReplyAsItIs: the header of a reply, verifier included, is the
// upstream's, also of one that failed.
func TestReplyAsItIs(t *testing.T) {
	u := newUpstream(t)
	client := newRig(t, loopback.New(loopback.Config{}), u.address).dial()
	p := u.accept()
	verf := enc(6, "12345")
	for name, tail := range map[string][]byte{
		"success":      enc([]byte{0, 0, 0, 0}, "results"),
		"GARBAGE_ARGS": enc(4),
	} {
		var want []byte
		go func() {
			c := p.call()
			want = enc(c.XID, 1, 0, verf, tail)
			p.send(want, 5)
		}()
		call := &rpcrdma.Call{Program: 200000, Version: 1, Procedure: 1, Args: enc("asked"), Whole: true}
		if err := client.Call(t.Context(), call); err != nil || !bytes.Equal(call.Reply, want) {
			t.Errorf("%s: %x, %v, want %x", name, call.Reply, err, want)
		}
	}
}

// TestCallAsItIs: XID, credential and verifier are the client's, arguments
// apart are in their place with their roundup.
func TestCallAsItIs(t *testing.T) {
	u := newUpstream(t)
	client := newRig(t, loopback.New(loopback.Config{}), u.address).dial()
	p := u.accept()
	buf, err := client.Alloc(t.Context(), 5003)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release()
	data := random(5001)
	copy(buf.Bytes(), data)
	head := enc("handle", 0, 0, 5001, 0, 5001)
	call := &rpcrdma.Call{
		Program: nfsProgram, Version: 3, Procedure: 7, XID: 0xdecade, OwnXID: true,
		Cred: oncrpc.Auth{Flavor: 6, Body: []byte("12345678901234567")}, Verf: oncrpc.Auth{Flavor: 6, Body: []byte("abc")},
		Args: head, Items: []oncrpc.ReplyItem{{Pos: len(head), Buf: buf, Len: len(data)}}, MaxReply: 200,
	}
	got := make(chan []byte, 1)
	go func() {
		msg := p.next()
		got <- msg
		p.send(success(0xdecade), 0)
	}()
	if err := client.Call(t.Context(), call); err != nil {
		t.Error(err)
	}
	want := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 0xdecade, Program: nfsProgram, Version: 3, Procedure: 7, Cred: call.Cred, Verf: call.Verf})
	want = xdr.AppendFixed(append(want, head...), data)
	if msg := <-got; !bytes.Equal(msg, want) {
		t.Errorf("%d bytes, want %d", len(msg), len(want))
	}
}

// TestItemsFit: an item is as long as its word says, and may have its roundup, in
// part or all of it; a byte more would be a word too many in the record.
func TestItemsFit(t *testing.T) {
	for _, count := range []int{0, 1, 3, 4, 1000, 1001} {
		for n := range 1010 {
			p := &oncrpc.Payload{Stream: enc(count), Items: []oncrpc.Item{{Pos: 4, Data: make([]byte, n)}}}
			if fits, want := itemsFit(p), n >= count && n <= xdr.Padded(count); fits != want {
				t.Errorf("%d bytes for %d: %v", n, count, fits)
			}
		}
	}
}

// TestReducedWhatIsNot: arguments apart that their binding does not have, or
// of another length than the word before them, never reach the upstream.
func TestReducedWhatIsNot(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address)
	r.p = refereetest.Without(r.p)
	client := r.dial()
	p := u.accept()
	buf, err := client.Alloc(t.Context(), 8000)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release()
	lookup := enc("handle", 8000)
	short := enc("handle", 0, 0, 8000, 0, 7000)
	other := enc(6000)
	for name, c := range map[string]*rpcrdma.Call{
		"a name":                         {Program: nfsProgram, Version: 3, Procedure: 3, Args: lookup},
		"longer than its word":           {Program: nfsProgram, Version: 3, Procedure: 7, Args: short},
		"of a program without a binding": {Program: 300000, Version: 1, Procedure: 1, Args: other},
	} {
		c.MaxReply = 100
		c.Items = []oncrpc.ReplyItem{{Pos: len(c.Args), Buf: buf, Len: 8000}}
		err := client.Call(t.Context(), c)
		if a, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || a.Stat != oncrpc.GarbageArgs {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := r.Stats(); s.Refused != 3 || s.Calls != 0 {
		t.Errorf("%+v", s)
	}
	go func() { p.send(success(p.call().XID), 0) }()
	if err := client.Call(context.Background(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
		t.Error(err)
	}
}
