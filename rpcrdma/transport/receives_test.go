package transport

import (
	"reflect"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// nullQP keeps the last receive that was posted.
type nullQP struct {
	verbs.QP
	sge verbs.SGE
}

func (q *nullQP) PostRecv(wrs []verbs.RecvWR) (int, error) {
	q.sge = wrs[0].SGL[0]
	return len(wrs), nil
}

// TestTargetsArePages: in receives of every size all target segments are pages,
// and their memory is what it was without them.
func TestTargetsArePages(t *testing.T) {
	pd, err := loopback.New(loopback.Config{}).Device().AllocPD()
	ok(t, err)
	pool := regmem.New(pd, verbs.AccessLocalWrite, 64<<20)
	for size := 1024; size <= 256<<10; size += 1024 {
		qp := &nullQP{}
		r := receives{qp: qp, pool: pool, size: size}
		if n, err := r.post(1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		msg := r.bytes(0, size)
		if at := qp.sge.MR.Bytes()[qp.sge.Offset:]; &at[0] != &msg[0] || qp.sge.Length != size || len(msg) != size {
			t.Fatalf("%d bytes: posted %+v", size, qp.sge)
		}
		if plain := pool.TryAlloc(size, regmem.Service); len(plain.Bytes()) != len(r.bufs[0].buf.Bytes()) {
			t.Errorf("%d bytes: memory of %d, not %d", size, len(r.bufs[0].buf.Bytes()), len(plain.Bytes()))
		} else {
			plain.Release()
		}
		off := 0
		for _, g := range placement.Derive(uint32(size)).Groups {
			for range g.Count {
				if g.Flags&rpcrdma2.TargetableFlag != 0 && reflect.ValueOf(msg[off:]).Pointer()%uintptr(g.Align) != 0 {
					t.Fatalf("%d bytes: target at %d is not aligned", size, off)
				}
				off += int(g.Length)
			}
		}
		r.releaseAll()
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
