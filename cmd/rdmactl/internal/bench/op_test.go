package bench

import (
	"bytes"
	"testing"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
)

// TestProtocol: what is sent is what the echo service takes.
func TestProtocol(t *testing.T) {
	if (target.Echo != target.Program{Number: echo.Program, Version: echo.Version}) {
		t.Errorf("the echo program is %v", target.Echo)
	}
	if procEcho != echo.ProcEcho || procRead != echo.ProcRead || procWrite != echo.ProcWrite {
		t.Error("procedures differ")
	}
	if MaxSize > echo.MaxPayload {
		t.Error("echo takes less")
	}
	for _, n := range []int{0, 1, 5, 4096, MaxSize} {
		got, want := make([]byte, n), make([]byte, n)
		fill(got, 0)
		echo.Fill(want)
		if !bytes.Equal(got, want) {
			t.Errorf("READ of %d bytes is expected to be something else", n)
		}
	}
}

func TestFillTellsWorkersApart(t *testing.T) {
	one, two := make([]byte, 4096), make([]byte, 4096)
	fill(one, 1)
	fill(two, 2)
	for off := 0; off < len(one); off += 4 {
		if one[off] == two[off] {
			t.Fatalf("the same at %d", off)
		}
	}
}

// TestSpoil: after it no part of an answer is right by itself.
func TestSpoil(t *testing.T) {
	for _, n := range []int{0, 4, 8, 512, 516, 520, 5000} {
		want := make([]byte, n)
		fill(want, 0)
		got := bytes.Clone(want)
		spoil(got)
		for off := 0; off < n; off += spoilEvery {
			part := got[off:min(off+spoilEvery, n)]
			if bytes.Equal(part, want[off:off+len(part)]) {
				t.Errorf("%d bytes: those from %d on are left", n, off)
			}
		}
		if n >= 4 && bytes.Equal(got[n-4:], want[n-4:]) {
			t.Errorf("%d bytes: the last are left", n)
		}
	}
}

func TestPerOp(t *testing.T) {
	before := rpcrdma.Stats{Sends: 10, Receives: 10, Replies: 10}
	after := rpcrdma.Stats{
		Sends: 13, Receives: 13, Replies: 13, RoundTrips: 6, CallsRead: 3, PeerReads: 6, PeerWrites: 1,
		Registrations: 9, LocalInvalidations: 3, RemoteInvalidations: 2,
	}
	want := PerOp{
		Sends: 1, Receives: 1, RDMAReads: 2, RDMAWrites: 0.333,
		Registrations: 3, LocalInvalidations: 1, RemoteInvalidations: 0.667, RoundTrips: 2,
	}
	if got := perOp(&before, &after, 3); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := perOp(&before, &after, 0); got != (PerOp{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
