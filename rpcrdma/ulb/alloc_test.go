package ulb_test

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
)

// TestNoAllocation: a plan that has been used before allocates nothing.
func TestNoAllocation(t *testing.T) {
	ask := compound(7, 53, sid, 1, 2, 3, 1, 22, "handle", read(4096), write("data"), readlink(), 9, 2, 16, 16, 26, 0, 0, 0, 0, 512, 4096, 1, 16)
	body := oncrpc.Payload{Stream: results(0, 7, 53, 0, sid, 1, 2, 3, 4, 0, 22, 0, didRead("some data"),
		38, 0, 4, 2, 0, 0, didReadlink("to"), 9, 0, 1, 16, 8, 0, 0, 26, 0, 0, 0, 1, 0, 1, "name", 0, 0, 0, 1)}
	var p ulb.Plan
	var err error
	run := func() {
		if err = p.Call(registry, ask); err == nil {
			err = p.Reply(&body)
		}
		if len(p.Results) == 2 {
			p.Find(body.Stream, 1, nil)
		}
	}
	run()
	if err != nil || len(p.Items) != 1 || len(p.Results) != 2 || p.Results[1].Len != 2 {
		t.Fatalf("%v, %+v", err, p)
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCompound plans for a COMPOUND with a READ and finds it in its reply.
func BenchmarkCompound(b *testing.B) {
	ask := compound(3, 53, sid, 1, 2, 3, 1, 22, "handle", read(4096))
	body := oncrpc.Payload{Stream: results(0, 3, 53, 0, sid, 1, 2, 3, 4, 0, 22, 0, didRead("some data"))}
	var p ulb.Plan
	for b.Loop() {
		if p.Call(registry, ask) != nil || p.Reply(&body) != nil {
			b.Fatal("refused")
		}
	}
}
