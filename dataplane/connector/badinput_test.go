package connector

import (
	"bytes"
	"context"
	"math"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// TestBadRecords: a client that sends something other than a call loses its connection, with
// one line that says why. Other clients are not affected.
func TestBadRecords(t *testing.T) {
	for name, c := range map[string]struct {
		send   []byte
		hangUp bool
		time   time.Duration // RecordTimeout, where it is not to be long
		want   string
	}{
		"cut short":              {send: echoRecord(1, echo.ProcNull, nil)[:20], hangUp: true, want: "unexpected EOF"},
		"cut in its mark":        {send: []byte{0x80, 0}, hangUp: true, want: "unexpected EOF"},
		"too large":              {send: oncrpc.AppendRecordMark(nil, maxRefused+1, true), want: "record larger than the limit"},
		"too large in parts":     {send: append(append(oncrpc.AppendRecordMark(nil, 2000, false), make([]byte, 2000)...), oncrpc.AppendRecordMark(nil, maxRefused, true)...), want: "record larger than the limit"},
		"empty":                  {send: oncrpc.AppendRecordMark(nil, 0, true), want: "malformed"},
		"too many fragments":     {send: bytes.Repeat(oncrpc.AppendRecordMark(nil, 0, false), 5000), want: "too many fragments"},
		"neither call nor reply": {send: frame([]byte{0, 0, 0, 1, 0, 0, 0, 2}), want: "malformed"},
		"no header":              {send: frame([]byte{0, 0, 0, 1, 0, 0, 0, 0}), want: "malformed"},
		"stalls":                 {send: echoRecord(1, echo.ProcNull, nil)[:20], time: 200 * time.Millisecond, want: "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newLoopback(t), echo.New(), Config{RecordTimeout: c.time})
			other := r.dial(rpctcp.ClientConfig{})
			nc, _ := r.raw()
			if _, err := nc.Write(c.send); err != nil {
				t.Fatal(err)
			}
			if c.hangUp {
				if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			gone(t, nc)
			r.log.Await(t, "level=WARN", "connection down", "listener=out", c.want)
			if _, err := echoCall(t.Context(), other, echo.ProcNull, nil); err != nil {
				t.Errorf("another client: %v", err)
			}
		})
	}
}

// TestTornItem: a WRITE whose data is longer than its record.
func TestTornItem(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{})
	msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 5, Program: 100003, Version: 3, Procedure: procWrite})
	msg = xdr.AppendUint64(xdr.AppendString(msg, "handle"), 0)
	msg = xdr.AppendUint32(xdr.AppendUint32(msg, 5000), 0)
	msg = append(xdr.AppendUint32(msg, 5000), make([]byte, 3000)...)
	t.Run("one fragment", func(t *testing.T) {
		nc, records := r.raw()
		if _, err := nc.Write(frame(msg)); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Next(); err != nil {
			t.Fatal(err) // the target judges: it does not know the program
		}
		reply, err := records.Read(nil)
		if want := oncrpc.AppendAcceptError(nil, 5, &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}); err != nil || !bytes.Equal(reply, want) {
			t.Errorf("%x, %v", reply, err)
		}
	})
	t.Run("two", func(t *testing.T) {
		nc, _ := r.raw()
		b := append(oncrpc.AppendRecordMark(nil, 500, false), msg[:500]...)
		b = append(b, frame(msg[500:])...)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		gone(t, nc)
		r.log.Await(t, "connection down", "unexpected EOF")
	})
}

// TestFragmentsAfterAWait: the time for a record does not include the wait of earlier calls.
func TestFragmentsAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p := newPiped(t, g, Config{Connector: spec.Connector{MaxCalls: 1}})
		nc := p.dial(t)
		records := oncrpc.NewRecordReader(nc, 4<<20)
		write := func(b []byte) {
			t.Helper()
			if _, err := nc.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		read := func() {
			t.Helper()
			if _, err := records.Next(); err != nil {
				t.Fatal(err)
			}
			if _, err := records.Read(nil); err != nil {
				t.Fatal(err)
			}
		}
		// The second call waits for the first. The rest of it, for which time
		// runs, comes with the first fragment of the third.
		second := echoRecord(2, echo.ProcNull, make([]byte, 400))
		third := echoRecord(3, echo.ProcNull, make([]byte, 400))[oncrpc.RecordMarkSize:]
		write(append(echoRecord(1, echo.ProcNull, nil), second[:100]...))
		<-g.entered
		write(append(append(second[100:], oncrpc.AppendRecordMark(nil, 60, false)...), third[:60]...))
		time.Sleep(2 * DefaultRecordTimeout)
		close(g.open)
		read()
		write(frame(third[60:]))
		read()
		read()
	})
}

// TestItemAfterAWait: the time for a record does not include the wait for memory of its item.
func TestItemAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		p := newPiped(t, handlerFunc(func(_ context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
			c.Args.Claim()
			return nil
		}), Config{})
		c := rpctcp.NewClient(p.dial(t), rpctcp.ClientConfig{WriteTimeout: time.Hour})
		defer c.Close()
		if _, err := c.Call(t.Context(), nfs.Program, 3, 0, nil, nil); err != nil {
			t.Fatal(err)
		}
		offheap.SetLimit(offheap.Read().Used)
		defer offheap.SetLimit(math.MaxInt64)
		done := make(chan error, 1)
		go func() {
			args := append(nfstest.WriteArgs([]byte("file"), 0, size, nfstest.Unstable), make([]byte, size)...)
			_, err := c.Call(t.Context(), nfs.Program, 3, procWrite, args, nil)
			done <- err
		}()
		synctest.Wait()
		if running(".(*session).readItem(") != 1 {
			t.Error("there was memory")
		}
		time.Sleep(2 * DefaultRecordTimeout)
		offheap.SetLimit(math.MaxInt64)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestDuplicate: a call with the XID of one in flight gets no answer of its
// own; one with the XID of an answered call does.
func TestDuplicate(t *testing.T) {
	g := newGate()
	r := newRig(t, newLoopback(t), g, Config{})
	nc, records := r.raw()
	if _, err := nc.Write(echoRecord(6, echo.ProcWrite, nil)); err != nil {
		t.Fatal(err)
	}
	read := func() {
		t.Helper()
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Read(nil); err != nil {
			t.Fatal(err)
		}
	}
	read()
	call := echoRecord(7, echo.ProcNull, nil)
	if _, err := nc.Write(append(append([]byte(nil), call...), call...)); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Write(echoRecord(8, echo.ProcNull, nil)); err != nil {
		t.Fatal(err)
	}
	<-g.entered
	<-g.entered // the 8th, so that the duplicate has been read
	close(g.open)
	read()
	read()
	if _, err := nc.Write(call); err != nil {
		t.Fatal(err)
	}
	read()
	if s := r.c.Stats(); s.Duplicates != 1 || s.Calls != 5 {
		t.Errorf("%+v", s)
	}
}

// TestSlowReader: a client that does not read its replies is disconnected and its memory is
// freed. Another client is served meanwhile.
func TestSlowReader(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{WriteTimeout: 500 * time.Millisecond})
	nc, _ := r.raw()
	if err := nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	go func() { // until it is cut: the connector stops reading
		for xid := uint32(0); ; xid++ {
			if _, err := nc.Write(echoRecord(xid, echo.ProcRead, xdr.AppendUint32(nil, 1<<20-100))); err != nil {
				return
			}
		}
	}()
	other := r.dial(rpctcp.ClientConfig{})
	for range 20 {
		if got, err := echoCall(t.Context(), other, echo.ProcEcho, opaque(5000)); err != nil || !bytes.Equal(got, opaque(5000)) {
			t.Fatalf("another client: %d bytes, %v", len(got), err)
		}
	}
	r.log.Await(t, "connection down", "listener=out", "client does not take its replies")
	if _, err := echoCall(t.Context(), other, echo.ProcNull, nil); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// TestIdle: a client without calls is disconnected, one that waits for an
// answer is not.
func TestIdle(t *testing.T) {
	g := newGate()
	r := newRig(t, newLoopback(t), g, Config{})
	l := r.c.place.Places().Limits()
	l.Idle, l.HalfOpen = 50*time.Millisecond, 50*time.Millisecond
	r.c.place.Places().SetLimits(l)
	answered := make(chan error, 1)
	for waits := false; !waits; { // one that a busy machine made late is idle itself
		busy, records := r.raw()
		_, _ = busy.Write(echoRecord(1, echo.ProcNull, nil)) // it may be too late already
		go func() {
			_, err := records.Next()
			answered <- err
		}()
		select {
		case <-g.entered:
			waits = true
		case <-answered:
		}
	}
	idle, _ := r.raw()
	gone(t, idle)
	r.log.Await(t, "connection down", "nothing came since it was accepted")
	close(g.open)
	r.log.Await(t, "connection down", "idle for too long") // the other client, now that it has its answer
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// TestRefused: limits and access are those of a listener.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    Config
		before int // clients that are let in
		want   dataplane.Refusal
	}{
		"denied":       {Config{Connector: spec.Connector{Access: dataplane.Access{Deny: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}}, 0, dataplane.RefusedDenied},
		"not allowed":  {Config{Connector: spec.Connector{Access: dataplane.Access{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}, 0, dataplane.RefusedDenied},
		"too many":     {Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Limits: dataplane.Limits{Connections: 2}}}}, 2, dataplane.RefusedConnections},
		"too many one": {Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Limits: dataplane.Limits{ConnectionsPerPeer: 1}}}}, 1, dataplane.RefusedPerPeer},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, newLoopback(t), echo.New(), c.cfg)
			for range c.before {
				if _, err := echoCall(t.Context(), r.dial(rpctcp.ClientConfig{}), echo.ProcNull, nil); err != nil {
					t.Fatal(err)
				}
			}
			nc, _ := r.raw()
			gone(t, nc)
			r.log.Await(t, "connection refused", "listener=out")
			i := r.d.Connectors()[0]
			if i.Refusals[c.want] != 1 || i.Refused != 1 || i.Connections != c.before {
				t.Errorf("%+v", i)
			}
		})
	}
}
