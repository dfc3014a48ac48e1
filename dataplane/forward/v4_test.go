package forward

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// readOp is a READ of NFSv4, gotRead its result.
func readOp(n int) []byte                      { return enc(25, make([]byte, 16), 0, 0, n) }
func gotRead(data []byte) []byte               { return enc(25, 0, 1, string(data)) }
func compound(n int, ops ...any) []byte        { return enc("", 1, n, enc(ops...)) }
func results(status, n int, ops ...any) []byte { return enc(status, "", n, enc(ops...)) }

// TestManyReads: each READ of a COMPOUND fills the write chunk that is its own,
// however little it is; one without data, or not reached, leaves its chunk empty.
func TestManyReads(t *testing.T) {
	a, b, c := random(5000), random(6001), random(7)
	for name, test := range map[string]struct {
		reply []byte
		want  [3][]byte
	}{
		"all":         {results(0, 3, gotRead(a), gotRead(b), gotRead(c)), [3][]byte{a, b, c}},
		"first small": {results(0, 3, gotRead(c), gotRead(b), gotRead(a)), [3][]byte{c, b, a}},
		"all small":   {results(0, 3, gotRead(c), gotRead(c), gotRead(c)), [3][]byte{c, c, c}},
		"first empty": {results(0, 3, gotRead(nil), gotRead(b), gotRead(a)), [3][]byte{nil, b, a}},
		"two empty":   {results(0, 3, gotRead(nil), gotRead(nil), gotRead(b)), [3][]byte{nil, nil, b}},
		"last failed": {results(5, 3, gotRead(a), gotRead(b), 25, 5), [3][]byte{a, b, nil}},
		"the first":   {results(5, 2, gotRead(b), 25, 5), [3][]byte{b, nil, nil}},
		"none":        {results(5, 1, 25, 5), [3][]byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				u := newUpstream(t)
				r := newRig(t, p, u.address)
				client := r.dial()
				up := u.accept()
				call := &rpcrdma.Call{
					Program: nfsProgram, Version: 4, Procedure: 1, MaxReply: 512,
					Args: compound(3, readOp(8000), readOp(8000), readOp(8000)),
				}
				for range 3 {
					buf, err := client.Alloc(t.Context(), 8000)
					if err != nil {
						t.Fatal(err)
					}
					defer buf.Release()
					call.Results = append(call.Results, rpcrdma.Result{Buf: buf, Max: 8000})
				}
				go func() { up.send(success(up.call().XID, test.reply), 999) }()
				if err := client.Call(t.Context(), call); err != nil {
					t.Fatal(err)
				}
				for i, want := range test.want {
					res := call.Results[i]
					if !bytes.Equal(res.Buf.Bytes()[:res.Apart], want) {
						t.Errorf("result %d: %d bytes placed, want %d", i, res.Apart, len(want))
					}
				}
			})
		})
	}
}

// TestOperationUnknown: what follows an operation that the binding does not
// know is passed on as it is, both ways.
func TestOperationUnknown(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		u := newUpstream(t)
		client := newRig(t, p, u.address).dial()
		up := u.accept()
		args := compound(2, 4711, "whatever", readOp(100))
		body := results(0, 2, 4711, 0, "something", gotRead([]byte("data")))
		go func() {
			c := up.call()
			if !bytes.Equal(c.Args.Stream, args) {
				t.Errorf("the upstream got %x", c.Args.Stream)
			}
			up.send(success(c.XID, body), 0)
		}()
		call := &rpcrdma.Call{Program: nfsProgram, Version: 4, Procedure: 1, Args: args, MaxReply: 512}
		if err := client.Call(t.Context(), call); err != nil || !bytes.Equal(call.Reply, body) {
			t.Errorf("%x, %v", call.Reply, err)
		}
	})
}

// TestScantMemory: without registered memory, results come in other memory,
// and nobody waits for ever.
func TestScantMemory(t *testing.T) {
	nc := newScriptConn()
	s := newSession(New(Config{}), netip.AddrPort{}, nc)
	defer s.Close()
	nc.wrote = func([]byte) { nc.next <- record(success(1, didRead("data")), 0) }
	reply := &oncrpc.Reply{Mem: &memory{scant: true}}
	call := &oncrpc.Call{XID: 1, Program: nfsProgram, Version: 3, Procedure: 6, Args: oncrpc.Payload{Stream: enc("handle42", 0, 0, 4)}}
	var done sync.WaitGroup
	done.Go(func() {
		if err := serve(t.Context(), s, call, reply); err != nil || len(reply.Items) != 1 {
			t.Errorf("%v, %d items", err, len(reply.Items))
		} else if got := reply.Items[0].Buf.Bytes(); string(got) != "data" {
			t.Errorf("got %q", got)
		}
	})
	done.Wait()
	if n := s.f.Stats().Unpooled; n != 1 {
		t.Errorf("%d without the pool's memory", n)
	}
}
