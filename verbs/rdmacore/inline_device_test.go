//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"bytes"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestInline: Sends and RDMA Writes carry their data themselves up to the size that the device
// takes, from one entry or two, and longer ones do not. The data arrives in either case.
func TestInline(t *testing.T) {
	const flag = 1 << 3 // IBV_SEND_INLINE
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
	defer pair.Close()
	a, b := pair.A, pair.B
	q := a.QP.(*queuePair)
	most := int(q.inline)
	if most < leastInline {
		t.Fatalf("%d bytes of inline data on siw or rxe", most)
	}
	id := uint64(0)
	for _, n := range []int{1, 2, 32, 33, 52, most - 1, most, most + 1} {
		for _, split := range []bool{false, true} {
			if split && n < 2 {
				continue
			}
			id += 3
			verbstest.Fill(a.Bytes(0, n), id)
			sgl := []verbs.SGE{a.SGE(0, n)}
			if split {
				sgl = []verbs.SGE{a.SGE(0, n/2), a.SGE(n/2, n-n/2)}
			}
			b.Receive(id, 1000, 512)
			a.Post(verbstest.Write(id+1, b.Remote(2000), sgl...), verbstest.Send(id+2, sgl...))
			for i := range q.sq.list {
				if got := uint32(q.sq.list[i].flags)&flag != 0; got != (n <= most) {
					t.Errorf("request %d of %d bytes, split %v: inline %v, with a limit of %d", i, n, split, got, most)
				}
			}
			a.Done(id+1, verbs.WCRDMAWrite)
			a.Done(id+2, verbs.WCSend)
			b.Got(id, n)
			if !bytes.Equal(b.Bytes(1000, n), a.Bytes(0, n)) || !bytes.Equal(b.Bytes(2000, n), a.Bytes(0, n)) {
				t.Errorf("%d bytes, split %v: wrong data", n, split)
			}
		}
	}
}
