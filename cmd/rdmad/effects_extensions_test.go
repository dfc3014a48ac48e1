package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// valve passes bytes between a client and an address, those to the client
// only while it is open.
type valve struct {
	address string
	mu      sync.RWMutex // held while it is shut
}

func newValve(t *testing.T, to string) *valve {
	t.Helper()
	front := have(net.Listen("tcp", "127.0.0.1:0"))(t)
	v := &valve{address: front.Addr().String()}
	var copying sync.WaitGroup
	copying.Go(func() {
		in, err := front.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		out, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		copying.Go(func() {
			io.Copy(out, in)
			out.Close()
		})
		buf := make([]byte, 1<<16)
		for {
			n, err := out.Read(buf)
			if err != nil {
				return
			}
			v.mu.RLock()
			_, err = in.Write(buf[:n])
			v.mu.RUnlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		front.Close()
		copying.Wait()
	})
	return v
}

func extension(name string, on bool) *rdmadv1.Settings {
	e := &rdmadv1.ExtensionsSettings{}
	switch name {
	case "msgp":
		e.Msgp = &on
	case "read_replies":
		e.ReadReplies = &on
	case "ccp":
		e.Ccp = &on
	}
	return &rdmadv1.Settings{Extensions: e}
}

// A reply that is exposed when extensions.read_replies is turned off is still read and
// acknowledged. The next reply is not exposed.
func TestExposedReplyIsFinished(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	o.change(extension("read_replies", true), 0)
	v := newValve(t, p.addresses["echo"])
	c := r.dialWith(v.address, func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtReadReplies }, false)
	w := o.wire()
	const size = 20000
	long := func() (*rpcrdma.Call, error) {
		call := &rpcrdma.Call{
			Program: echo.Program, Version: echo.Version, Procedure: echo.ProcRead,
			Args: xdr.AppendUint32(nil, size), MaxReply: 64, // less than comes
		}
		return call, c.Call(t.Context(), call)
	}
	want := xdr.AppendUint32(nil, size)
	want = append(want, make([]byte, size)...)
	echo.Fill(want[4:])
	v.mu.Lock()
	ended := make(chan error, 1)
	go func() {
		call, err := long()
		if err == nil && !bytes.Equal(call.Reply, want) {
			err = errors.New("another reply")
		}
		ended <- err
	}()
	_, e := w.reply()
	if len(e.GetHeader().GetReads()) == 0 {
		t.Errorf("the reply is not exposed: %v", e)
	}
	o.apply(extension("read_replies", false))
	v.mu.Unlock()
	if err := <-ended; err != nil {
		t.Errorf("the exposed reply: %v", err)
	}
	for e := w.next(); e.GetHeader().GetProcedure() != "RDMA_DONE"; e = w.next() {
		if e.GetDirection() == rdmadv1.TraceResponse_OUT {
			t.Errorf("before the DONE: %v", e)
		}
	}
	var refused *rpcrdma.PeerError
	if _, err := long(); !errors.As(err, &refused) || refused.Code != rpcrdma1.ErrChunk {
		t.Errorf("the next: %v", err)
	}
	if err := c.Call(t.Context(), echoCall([]byte("short"))); err != nil {
		t.Error(err)
	}
}

// After extensions.msgp is turned off, padded messages are still accepted from peers to which
// it was announced. rdmad sends none any more.
func TestPaddingAgreedOnIsTaken(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	o.change(extension("msgp", true), 0)
	o.change(minChunk(1<<20), 0)
	const size = 2000
	c := r.dialWith(p.addresses["echo"], func(s *rpcrdma.Settings) {
		s.Extensions, s.DDPMinChunk = rpcrdma.ExtMSGP, 1<<20
	}, false)
	w := o.wire()
	for i := range 3 {
		write := padded(t, c, size)
		must(t, c.Call(t.Context(), write))
		e := w.next()
		if e.GetHeader().GetProcedure() != "RDMA_MSGP" {
			t.Errorf("call %d came as %v", i, e.GetHeader())
		}
		w.reply()
		read := have(readPadded(t, c, size))(t)
		_, e = w.reply()
		if got, want := e.GetHeader().GetProcedure() == "RDMA_MSGP", i == 0; got != want {
			t.Errorf("reply %d went as %v", i, e.GetHeader())
		}
		if !read {
			t.Errorf("reply %d has other bytes", i)
		}
		if i == 0 {
			o.apply(extension("msgp", false))
		}
	}
}

// padded is a WRITE that a client pads where it may.
func padded(t *testing.T, c *rpcrdma.Client, size int) *rpcrdma.Call {
	t.Helper()
	buf := have(c.Alloc(t.Context(), size))(t)
	t.Cleanup(buf.Release)
	args := xdr.AppendUint32(nil, uint32(size))
	return &rpcrdma.Call{
		Program: echo.Program, Version: echo.Version, Procedure: echo.ProcWrite,
		Args: args, Items: []oncrpc.ReplyItem{{Pos: len(args), Buf: buf, Len: size}}, MaxReply: 8,
	}
}

// readPadded makes a READ whose reply may be padded.
func readPadded(t *testing.T, c *rpcrdma.Client, size int) (ok bool, err error) {
	w := newCaller(t, c, 1)
	defer w.buf.Release()
	return w.read(size)
}

// Limits agreed by CCP apply until the peer reconnects.
func TestConfigurationHoldsUntilReconnect(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	o.change(extension("ccp", true), 0)
	c := r.dialWith(p.addresses["echo"], func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtCCP }, true)
	if !c.Info().Configuration.Spoken {
		t.Fatal("CCP is not spoken")
	}
	before := o.connection()
	b := newBusy(t, c, 8)
	b.wait(100)
	if e := o.set(extension("ccp", false)); e.GetOutcome() != rdmadv1.Effect_PENDING_RECONNECT {
		t.Errorf("%v", e)
	}
	b.wait(200)
	if now := o.connection(); now.GetId() != before.GetId() || now.GetInlineSend() != before.GetInlineSend() || now.GetErrors() != 0 || !c.Info().Configuration.Spoken {
		t.Errorf("it was %v and is %v", before, now)
	}
	b.stop()
}
