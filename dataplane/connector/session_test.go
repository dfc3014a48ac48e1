package connector

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestManyClients: each has its own connection, and its own answers.
func TestManyClients(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newRig(t, p, echo.New(), Config{Connector: spec.Connector{MaxReply: 64 << 10}})
		var wg, up sync.WaitGroup
		const clients = 50
		up.Add(clients)
		for i := range clients {
			wg.Go(func() {
				c := r.dial(rpctcp.ClientConfig{})
				_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
				up.Done()
				if err != nil {
					t.Error(err)
					return
				}
				up.Wait()
				for n := range 5 {
					size := i*100 + n
					if got, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(size)); err != nil || !bytes.Equal(got, opaque(size)) {
						t.Errorf("client %d: %d bytes, %v", i, len(got), err)
					}
				}
			})
		}
		up.Wait()
		if n := len(r.outgoing()); n != clients {
			t.Errorf("%d connections", n)
		}
		wg.Wait()
	})
}

// TestSettings: settings change on connections that are up, and report their effects.
func TestSettings(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{})
	c := r.dial(rpctcp.ClientConfig{})
	call := func() {
		t.Helper()
		if got, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(2000)); err != nil || !bytes.Equal(got, opaque(2000)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	call()
	before := r.outgoing()[0]
	effects := r.applied(settings(func(s *rpcrdma.Settings) { s.InlineSendMax = 1024 }), live.InlineSendMax, live.CreditsPolicy)
	if len(effects) != 1 || effects[0].id != before.ID || effects[0].outcome != live.Unsupported {
		t.Errorf("effects %+v", effects)
	}
	call()
	after := r.outgoing()[0]
	if before.InlineSend != 4096 || after.InlineSend != 1024 || after.Stats.LongCalls != before.Stats.LongCalls+1 {
		t.Errorf("inline_send %d, then %d; %d long calls, then %d",
			before.InlineSend, after.InlineSend, before.Stats.LongCalls, after.Stats.LongCalls)
	}
}

// TestNoWindows: on a device without memory windows the target is not allowed to invalidate,
// and a setting that asks for that reports why.
func TestNoWindows(t *testing.T) {
	r := newRig(t, refereetest.Around(t, loopback.New(loopback.Config{DeviceName: "siw0", NoWindows: true})), echo.New(), Config{})
	c := r.dial(rpctcp.ClientConfig{})
	if _, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(2000)); err != nil {
		t.Fatal(err)
	}
	if out := r.outgoing()[0]; out.RemoteInvalidation {
		t.Error("it offered remote invalidation")
	}
	effects := r.applied(settings(func(*rpcrdma.Settings) {}), live.RemoteInvalidationAccept)
	const reason = "remote_invalidation.accept: device siw0 has no memory windows, and what it registers can't be invalidated"
	if len(effects) != 1 || effects[0].outcome != live.Unsupported || effects[0].reason != reason {
		t.Errorf("effects %+v", effects)
	}
}

// TestReplyTooLong: a target whose reply does not fit into what it was offered answers
// ERR_CHUNK.
func TestReplyTooLong(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{Connector: spec.Connector{MaxReply: 8192}})
	c := r.dial(rpctcp.ClientConfig{})
	_, err := echoCall(t.Context(), c, echo.ProcRead, xdr.AppendUint32(nil, 10000))
	if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != oncrpc.SystemErr {
		t.Errorf("%v", err)
	}
	r.log.Await(t, "call answered with SYSTEM_ERR", "ERR_CHUNK")
	if got, err := echoCall(t.Context(), c, echo.ProcRead, xdr.AppendUint32(nil, 8000)); err != nil || !bytes.Equal(got, opaque(8000)) {
		t.Errorf("afterwards: %d bytes, %v", len(got), err)
	}
}

// TestLyingTarget: a malformed reply of the target becomes SYSTEM_ERR for that call, and other
// calls continue.
func TestLyingTarget(t *testing.T) {
	lie := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		if c.Procedure == echo.ProcNull {
			return nil
		}
		buf, err := r.Mem.Alloc(ctx, 4096)
		if err != nil {
			return err
		}
		// As a READ of version 3, but for the data's place or length.
		r.Stream = xdr.AppendUint32(xdr.AppendUint32(r.Stream, 0), 0)
		r.Stream = xdr.AppendBool(xdr.AppendUint32(r.Stream, 4096), true)
		length := uint32(4096)
		switch c.Version {
		case 2:
			length = 100
		case 3:
			r.Stream = r.Stream[:len(r.Stream)-4]
		}
		r.Stream = xdr.AppendUint32(r.Stream, length)
		r.AppendItem(buf, 4096)
		return nil
	})
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var target oncrpc.Handler = handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
			how := *c
			how.Version = c.Cred.Flavor // says how to lie
			return lie(ctx, &how, r)
		})
		r := newRig(t, refereetest.Without(p), target, Config{})
		nc, records := r.raw()
		for how, want := range map[uint32]oncrpc.AcceptStat{0: oncrpc.Success, 2: oncrpc.SystemErr, 3: oncrpc.SystemErr} {
			msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: how, Program: 100003, Version: 3, Procedure: procRead, Cred: oncrpc.Auth{Flavor: how}})
			msg = xdr.AppendUint64(xdr.AppendString(msg, "handle"), 0)
			msg = xdr.AppendUint32(msg, 4096)
			if _, err := nc.Write(frame(msg)); err != nil {
				t.Fatal(err)
			}
			if _, err := records.Next(); err != nil {
				t.Fatal(err)
			}
			reply, err := records.Read(nil)
			if err != nil {
				t.Fatal(err)
			}
			if stat := oncrpc.AcceptStat(reply[23]); stat != want {
				t.Errorf("lie %d: %v", how, stat)
			}
		}
		if s := r.c.Stats(); s.Failed != 2 {
			t.Errorf("%+v", s)
		}
		r.log.Await(t, "call answered with SYSTEM_ERR", "procedure=6")
	})
}

// TestEmptyReads: a target that gives no write chunk to a READ without data, as Linux's does
// (svc_rdma_result_payload). The data of the next READ is then in an earlier chunk.
func TestEmptyReads(t *testing.T) {
	const read = 25
	data := opaque(5000)[4:]
	for name, lengths := range map[string][]int{
		"first": {0, 5000, 3}, "middle": {4999, 0, 5000}, "last": {4999, 5000, 0},
		"two": {0, 0, 5000}, "all": {0, 0, 0}, "none": {5000, 1, 4998},
	} {
		var want []byte // results
		target := handlerFunc(func(ctx context.Context, _ *oncrpc.Call, r *oncrpc.Reply) error {
			r.Stream = xdr.AppendUint32(xdr.AppendString(xdr.AppendUint32(r.Stream, 0), ""), uint32(len(lengths)))
			for _, n := range lengths {
				r.Stream = xdr.AppendBool(xdr.AppendUint32(xdr.AppendUint32(r.Stream, read), 0), true)
				r.Stream = xdr.AppendUint32(r.Stream, uint32(n))
				if n == 0 {
					continue
				}
				buf, err := r.Mem.Alloc(ctx, n)
				if err != nil {
					return err
				}
				copy(buf.Bytes()[:n], data)
				r.AppendItem(buf, n)
			}
			return nil
		})
		args := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendString(nil, ""), 1), uint32(len(lengths)))
		want = xdr.AppendUint32(xdr.AppendString(xdr.AppendUint32(nil, 0), ""), uint32(len(lengths)))
		for _, n := range lengths {
			args = append(xdr.AppendUint32(args, read), make([]byte, 16+8)...)
			args = xdr.AppendUint32(args, 5000)
			want = xdr.AppendBool(xdr.AppendUint32(xdr.AppendUint32(want, read), 0), true)
			want = xdr.AppendOpaque(want, data[:n])
		}
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				c := newRig(t, refereetest.Without(p), target, Config{}).dial(rpctcp.ClientConfig{})
				if got, err := c.Call(t.Context(), nfsProgram, 4, 1, args, nil); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
				}
			})
		})
	}
}

// TestTotals: those of the data plane have the calls of connectors, ended connections included.
func TestTotals(t *testing.T) {
	r := newRig(t, newLoopback(t), echo.New(), Config{})
	c := r.dial(rpctcp.ClientConfig{})
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
		t.Fatal(err)
	}
	// The connector's connection, and the target's.
	if connections, sum := r.d.Totals(); connections != 2 || sum.Calls != 2 {
		t.Errorf("%d connections, %+v", connections, sum)
	}
	c.Close()
	r.until(func() bool { connections, _ := r.d.Totals(); return connections == 0 })
	if _, sum := r.d.Totals(); sum.Calls != 2 {
		t.Errorf("afterwards %+v", sum)
	}
}

// TestTotalsInFlight: a connector's totals have a call that the target has not answered yet.
func TestTotalsInFlight(t *testing.T) {
	g := newGate()
	r := newRig(t, newLoopback(t), g, Config{})
	c := r.dial(rpctcp.ClientConfig{})
	var calling sync.WaitGroup
	calling.Go(func() {
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Error(err)
		}
	})
	<-g.entered
	if calls := r.d.Connectors()[0].Totals.Calls; calls != 1 {
		t.Errorf("%d calls", calls)
	}
	close(g.open)
	calling.Wait()
}
