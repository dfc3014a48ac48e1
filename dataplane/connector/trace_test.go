package connector

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestTrace: calls go out and replies come in, with the private data of both sides.
func TestTrace(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newRig(t, p, echo.New(), Config{})
		c := r.dial(rpctcp.ClientConfig{})
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Fatal(err)
		}
		w, err := r.d.Tracing().Watch(trace.Filter{Listener: "out"}, trace.All)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if _, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(100)); err != nil {
			t.Fatal(err)
		}
		d := trace.NewDecoder()
		for _, in := range []bool{false, true} {
			e, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			m := d.Decode(e)
			if m.In != in || !m.HasRPC || m.RPC.Reply != in || m.RPC.Program != echo.Program || m.Malformed != "" {
				t.Errorf("%+v", m)
			}
			if i := e.Conn.Info; !i.Began || len(i.OwnPrivate) != 8 || len(i.PeerPrivate) < 8 || !i.Local.IsValid() || i.Peer.String() != r.c.cfg.Target {
				t.Errorf("%+v", i)
			}
		}
	})
}
