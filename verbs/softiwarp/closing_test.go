package softiwarp

import (
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestPostWhileClosing: a Receive posted while the queue pair is being closed leaves nothing
// behind.
func TestPostWhileClosing(t *testing.T) {
	p := newProvider(t, Config{})
	pd := must(p.Device().AllocPD())(t)
	cq := must(p.Device().CreateCQ(64))(t)
	mr := must(pd.RegMR(make([]byte, 8), verbs.AccessLocalWrite))(t)
	for range 50 {
		id := must(p.Resolve(t.Context(), "127.0.0.1:1"))(t)
		qp := must(id.CreateQP(pd, verbs.QPAttr{SendCQ: cq, RecvCQ: cq, MaxSendWR: 1, MaxRecvWR: 8, MaxRecvSGE: 1}))(t)
		qp.Fail()
		begun, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			close(begun)
			for err := error(nil); err == nil; {
				_, err = qp.PostRecv([]verbs.RecvWR{{SGL: sge(mr, 0, 8)}})
			}
		}()
		<-begun
		verbstest.Must(t, id.Close())
		<-done
		if n := cq.Poll(make([]verbs.WC, 64)); n > 0 {
			t.Fatalf("%d completions of a closed queue pair", n)
		}
	}
	for _, o := range []interface{ Close() error }{mr, cq, pd} {
		verbstest.Should(t, o.Close())
	}
}
