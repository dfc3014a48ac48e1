package connector

import (
	"net"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestClientResets: a client that closes with RST after its work has done
// nothing wrong; with a call unanswered it is counted, and is no error either.
func TestClientResets(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		g := newGate()
		r := newRig(t, p, g, Config{})
		for _, busy := range []bool{false, true} {
			nc, records := r.raw()
			call := echoRecord(1, echo.ProcWrite, nil)
			if busy {
				call = echoRecord(1, echo.ProcNull, nil)
			}
			if _, err := nc.Write(call); err != nil {
				t.Fatal(err)
			}
			if busy {
				<-g.entered
			} else if _, err := records.Next(); err != nil {
				t.Fatal(err)
			} else if _, err := records.Read(nil); err != nil {
				t.Fatal(err)
			}
			conn := r.outgoing()[0].ID
			if err := nc.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
			nc.Close()
			r.log.Await(t, "connection down", "listener=out", "conn="+conn+" ")
			want := uint64(0)
			if busy {
				want = 1
			}
			if s := r.c.Stats(); s.Disconnects != want || s.Failed != 0 {
				t.Errorf("with a call %v: %+v", busy, s)
			}
		}
		if text := r.log.String(); strings.Contains(text, "level=WARN") {
			t.Errorf("logged:\n%s", text)
		}
	})
}
