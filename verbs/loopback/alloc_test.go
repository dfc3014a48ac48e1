package loopback

import (
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Nothing is allocated per request once the rings have grown.
func TestNoAllocation(t *testing.T) {
	for name, c := range map[string]FabricConfig{"iWARP": {}, "InfiniBand": {Transport: InfiniBand}} {
		t.Run(name, func(t *testing.T) {
			p := New(Config{Network: c})
			pair := verbstest.NewPair(t, p, p, verbstest.Options{})
			round := allocRound(t, pair)
			for range 20 {
				round()
			}
			if n := testing.AllocsPerRun(100, round); n != 0 {
				t.Errorf("%v allocations per round", n)
			}
		})
	}
}

// allocRound posts one request of each kind that moves data.
func allocRound(t *testing.T, p *verbstest.Pair) func() {
	a, b := p.A, p.B
	recv := []verbs.RecvWR{{ID: 7, SGL: []verbs.SGE{b.SGE(0, 4096)}}}
	send := []verbs.SendWR{
		verbstest.Write(1, b.Remote(4096), a.SGE(0, 1000)),
		verbstest.Read(2, b.Remote(4096), a.SGE(4096, 1000)),
		verbstest.Send(3, a.SGE(0, 1000)),
	}
	wc := make([]verbs.WC, 8)
	return func() {
		if n, err := b.QP.PostRecv(recv); n != 1 {
			t.Fatal(err)
		}
		if n, err := a.QP.PostSend(send); n != 3 {
			t.Fatal(err)
		}
		if a.SendCQ.Poll(wc) != 3 || b.RecvCQ.Poll(wc) != 1 {
			t.Fatal("completions missing")
		}
	}
}
