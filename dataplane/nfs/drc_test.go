package nfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// again makes a call with an XID of the test's own.
func (c *client) again(xid, proc uint32, args io.WriterTo) nfsv3.Nfsstat3 {
	c.x.t.Helper()
	var b bytes.Buffer
	_, err := args.WriteTo(&b)
	must(c.x.t, err)
	out, err := c.raw(Program, Version, proc, xid, oncrpc.Payload{Stream: b.Bytes()})
	must(c.x.t, err)
	status, err := checkResults(proc, out)
	must(c.x.t, err)
	return status
}

// A call that is sent again, from another port, gets its first reply and has
// no second effect.
func TestCallsSentAgain(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	f := c.mkfile(root, "f")
	c.mkfile(root, "name")
	elsewhere := x.me()
	elsewhere.peer = netip.AddrPortFrom(c.peer.Addr(), 999)
	xid := uint32(1 << 20)
	steps := []struct {
		proc uint32
		args io.WriterTo
		anew nfsv3.Nfsstat3 // what a new call would get
	}{
		{12, argsFor(12, root), nfsv3.NFS3ERR_NOENT},
		{8, argsFor(8, root), nfsv3.NFS3ERR_EXIST},
		{14, argsFor(14, root), nfsv3.NFS3ERR_NOENT},
		{9, argsFor(9, root), nfsv3.NFS3ERR_EXIST},
		{13, argsFor(13, root), nfsv3.NFS3ERR_NOENT},
		{15, &nfsv3.Link3args{File: fhOf(f), Link: in(root, "link")}, nfsv3.NFS3ERR_EXIST},
		{10, argsFor(10, root), nfsv3.NFS3ERR_EXIST},
	}
	for _, s := range steps {
		xid++
		if got := c.again(xid, s.proc, s.args); got != nfsv3.NFS3_OK {
			t.Fatalf("%s: %v", procedureNames[s.proc], got)
		}
		if got := elsewhere.again(xid, s.proc, s.args); got != nfsv3.NFS3_OK {
			t.Errorf("%s again: %v", procedureNames[s.proc], got)
		}
		if got := c.again(xid+1000, s.proc, s.args); got != s.anew {
			t.Errorf("%s anew: %v, want %v", procedureNames[s.proc], got, s.anew)
		}
	}
}

// Linux before 5.1 sends a call again with another stamp, the time, in its credential.
func TestCallsSentAgainWithAnotherStamp(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	for stamp := range uint32(3) {
		a := oncrpc.AuthSys{Stamp: stamp, MachineName: []byte("test"), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
		c.cred.Body = a.Append(nil)
		if got := c.again(7, 9, argsFor(9, root)); got != nfsv3.NFS3_OK {
			t.Errorf("MKDIR with stamp %d: %v", stamp, nfsv3.Nfsstat3_name[got])
		}
	}
}

// A SYMLINK that is sent again as a longer message, or as a shorter one, has its target apart from the other arguments
// or among them, perhaps after padding (RDMA_MSGP).
func TestSymlinkSentAgainInAnotherForm(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	pad := oncrpc.Padding{Align: 512, Thresh: 80, Base: 36}
	for i, target := range []string{"four", "seven77", strings.Repeat("long", 25)} {
		name := fmt.Sprint("link", i)
		var b bytes.Buffer
		_, err := (&nfsv3.Symlink3args{Where: in(root, name), Symlink: nfsv3.Symlinkdata3{SymlinkAttributes: withMode(0o777), SymlinkData: target}}).WriteTo(&b)
		must(t, err)
		whole := b.Bytes()
		at := len(whole) - xdr.Padded(len(target))
		for form, args := range []oncrpc.Payload{
			{Stream: whole},
			{Stream: whole[:at], Items: []oncrpc.Item{{Pos: at, Data: []byte(target)}}},
			{Stream: whole[:at], Items: []oncrpc.Item{{Pos: at, Data: whole[at:]}}}, // with its padding
			{Stream: whole[:at], Items: []oncrpc.Item{{Pos: at, Data: []byte(target[:3]), More: [][]byte{[]byte(target[3:])}}}},
			{Stream: slices.Concat(whole[:at], make([]byte, pad.Before(at, len(target))), whole[at:]), Padding: pad},
		} {
			out, err := c.raw(Program, Version, 10, uint32(100+i), args)
			must(t, err)
			if status, err := checkResults(10, out); err != nil || status != nfsv3.NFS3_OK {
				t.Errorf("%s, form %d: %v, %v", target, form, nfsv3.Nfsstat3_name[status], err)
			}
		}
	}
}

// A call that is sent again to the Server that has taken the place of the first one gets its first
// reply, too.
func TestCallsSentAgainToASuccessor(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.Replies = NewReplies() })
	first := x.server
	c := x.me()
	root := c.root()
	if got := c.again(7, 9, argsFor(9, root)); got != nfsv3.NFS3_OK {
		t.Fatal(got)
	}
	x.start()
	must(t, first.Close())
	if got := c.again(7, 9, argsFor(9, root)); got != nfsv3.NFS3_OK {
		t.Errorf("MKDIR again: %v", nfsv3.Nfsstat3_name[got])
	}
}

// Only what is the same in all that counts is the same call.
func TestOtherCallsAreOthers(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	if got := c.again(7, 9, argsFor(9, root)); got != nfsv3.NFS3_OK {
		t.Fatal(got)
	}
	stranger := x.me()
	stranger.peer = netip.MustParseAddrPort("192.0.2.9:700")
	if got := stranger.again(7, 9, argsFor(9, root)); got != nfsv3.NFS3ERR_EXIST {
		t.Errorf("another client: %v", got)
	}
	user := x.as(4711, 4711)
	if got := user.again(7, 9, argsFor(9, root)); got == nfsv3.NFS3_OK {
		t.Errorf("another user: %v", got)
	}
	other := &nfsv3.Mkdir3args{Where: in(root, "name"), Attributes: withMode(0o700)}
	if got := c.again(7, 9, other); got != nfsv3.NFS3ERR_EXIST {
		t.Errorf("other arguments: %v", got)
	}
	if got := c.again(7, 13, argsFor(13, root)); got != nfsv3.NFS3_OK {
		t.Errorf("another procedure: %v", got)
	}
}

func TestReplyCacheIsBounded(t *testing.T) {
	c := NewReplies()
	for i := range uint32(3 * maxReplies) {
		e, first := c.enter(callID{xid: i})
		if !first {
			t.Fatalf("call %d was there", i)
		}
		c.leave(e)
		if len(c.byID) > maxReplies {
			t.Fatalf("%d replies are kept", len(c.byID))
		}
	}
	if _, first := c.enter(callID{xid: 3*maxReplies - 1}); first {
		t.Error("the last call was forgotten")
	}
	if _, first := c.enter(callID{xid: 0}); !first {
		t.Error("the first call is remembered")
	}
}

func TestRepliesAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewReplies()
		id := callID{xid: 1}
		e, _ := c.enter(id)
		time.Sleep(2 * replyAge)
		if _, first := c.enter(id); first {
			t.Error("forgotten while it ran")
		}
		c.leave(e)
		time.Sleep(replyAge - 1)
		if _, first := c.enter(id); first {
			t.Error("forgotten too early")
		}
		time.Sleep(2 * time.Nanosecond)
		again, first := c.enter(id)
		if !first {
			t.Error("remembered too long")
		}
		c.leave(again)
		for i := range uint32(maxReplies) { // drops both entries of that call
			e, _ := c.enter(callID{xid: 2 + i})
			c.leave(e)
		}
		if len(c.byID) > maxReplies {
			t.Errorf("%d replies are kept", len(c.byID))
		}
	})
}

// The calls of one client drop neither the reply of another one nor a call that runs.
func TestBusyClientDropsItsOwnReplies(t *testing.T) {
	c := NewReplies()
	quiet, busy := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	e, _ := c.enter(callID{peer: quiet, xid: 1})
	c.leave(e)
	running, _ := c.enter(callID{peer: busy, xid: 0})
	for i := range uint32(2 * maxReplies) {
		e, _ := c.enter(callID{peer: busy, xid: 1 + i})
		c.leave(e)
	}
	if _, first := c.enter(callID{peer: quiet, xid: 1}); first {
		t.Error("the reply of a client that made no calls was forgotten")
	}
	if again, first := c.enter(running.id); first || again != running {
		t.Error("a call was forgotten while it ran")
	}
	if len(c.byID) != maxReplies+1 || c.kept.Len() != maxReplies {
		t.Errorf("%d calls are remembered, with %d replies", len(c.byID), c.kept.Len())
	}
}

// A copy that comes while the first call is at work waits for its reply, or
// for the end of its own connection.
func TestCopyWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewReplies()
		call := &oncrpc.Call{XID: 1, Procedure: 12}
		e, _ := c.enter(c.identify(call))
		ctx, cancel := context.WithCancel(context.Background())
		replies := make(chan error, 2)
		srv := &subtree{export: &exportPoint{crowd: newCrowd()}}
		second := &request{srv: srv, ctx: context.Background(), call: call, reply: &oncrpc.Reply{Stream: []byte("head")}}
		go func() { replies <- c.serve(second) }()
		third := &request{srv: srv, ctx: ctx, call: call, reply: &oncrpc.Reply{}}
		go func() { replies <- c.serve(third) }()
		synctest.Wait()
		if len(replies) != 0 {
			t.Fatal("a copy did not wait")
		}
		cancel()
		if err := <-replies; !errors.Is(err, context.Canceled) {
			t.Errorf("the copy of a connection that ended: %v", err)
		}
		e.reply = []byte("tail")
		close(e.done)
		if err := <-replies; err != nil || string(second.reply.Stream) != "headtail" {
			t.Errorf("the copy: %v, %q", err, second.reply.Stream)
		}
	})
}
