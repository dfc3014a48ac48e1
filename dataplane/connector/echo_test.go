package connector

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestUnbound: calls of a program without a binding go as they are, in chunks
// for whole messages when they are long.
func TestUnbound(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newRig(t, p, echo.New(), Config{})
		c := r.dial(rpctcp.ClientConfig{})
		if results, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil || len(results) != 0 {
			t.Fatalf("NULL: %x, %v", results, err)
		}
		for _, n := range []int{0, 1, 2, 3, 4, 1000, 1024, 1025, 4095, 4096, 4097, 65537, 1<<20 - 4} {
			if results, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(n)); err != nil || !bytes.Equal(results, opaque(n)) {
				t.Errorf("ECHO of %d bytes: %d bytes, %v", n, len(results), err)
			}
			if results, err := echoCall(t.Context(), c, echo.ProcRead, xdr.AppendUint32(nil, uint32(n))); err != nil || !bytes.Equal(results, opaque(n)) {
				t.Errorf("READ of %d bytes: %d bytes, %v", n, len(results), err)
			}
			if results, err := echoCall(t.Context(), c, echo.ProcWrite, opaque(n)); err != nil || len(results) != 8 {
				t.Errorf("WRITE of %d bytes: %x, %v", n, results, err)
			}
		}
		for _, call := range []struct {
			program, version, procedure uint32
			stat                        oncrpc.AcceptStat
		}{
			{1, 1, 0, oncrpc.ProgUnavail},
			{echo.Program, 2, 0, oncrpc.ProgMismatch},
			{echo.Program, echo.Version, 9, oncrpc.ProcUnavail},
			{echo.Program, echo.Version, echo.ProcEcho, oncrpc.GarbageArgs},
		} {
			_, err := c.Call(t.Context(), call.program, call.version, call.procedure, nil, nil)
			if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != call.stat {
				t.Errorf("%+v: %v", call, err)
			}
		}
	})
}

// TestInFlight has many callers on one connection, with more calls than
// credits, and answers of all sizes.
func TestInFlight(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newRig(t, p, echo.New(), Config{Connector: spec.Connector{MaxReply: 128 << 10}})
		c := r.dial(rpctcp.ClientConfig{MaxCalls: 100})
		var wg sync.WaitGroup
		for worker := range 100 {
			wg.Go(func() {
				for i := range 4 {
					n := (worker*977 + i*4099) % 70000
					results, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(n))
					if err != nil || !bytes.Equal(results, opaque(n)) {
						t.Errorf("ECHO of %d bytes: %d bytes, %v", n, len(results), err)
						return
					}
				}
			})
		}
		wg.Wait()
		c.Close()
		r.close()
		if s := r.c.Stats(); s.Calls != 400 || s.Replies != 400 || s.Failed != 0 || s.Duplicates != 0 {
			t.Errorf("statistics %+v", s)
		}
	})
}
