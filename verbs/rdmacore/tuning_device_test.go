//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"context"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// The operator's settings apply to the queue pairs of that side, independently of the peer's
// settings. RDMA Reads are limited by both sides' devices. iWARP has none of these settings.
func TestTuning(t *testing.T) {
	p := newProvider(t, Config{Tuning: tuning.Settings{
		RetryCount: 3, RNRRetryCount: 2, RNRTimer: 5 * time.Millisecond, AckTimeout: 67 * time.Millisecond,
	}})
	defer verbstest.CloseProvider(t, p)
	weak := newProvider(t, Config{Tuning: tuning.Settings{
		RetryCount: 5, RNRRetryCount: 4, RNRTimer: time.Millisecond, AckTimeout: 134 * time.Millisecond,
	}})
	defer verbstest.CloseProvider(t, weak)
	weak.first.Attrs.MaxQPRdAtom, weak.first.Attrs.MaxQPInitRdAtom = 4, 2
	pair := verbstest.NewPair(t, p, weak, verbstest.Options{Listen: *addressFlag + ":0", Reads: 16})
	defer pair.Close()
	if p.first.iwarp() {
		pair.Exchange(1)
		return
	}
	for _, side := range []struct {
		*verbstest.Side
		want attributes
	}{
		{pair.A, attributes{rnrTimer: 18, ackTimeout: 14, retries: 3, rnrRetries: 2, readsIn: 2, readsOut: 4}},
		{pair.B, attributes{rnrTimer: 14, ackTimeout: 15, retries: 5, rnrRetries: 4, readsIn: 4, readsOut: 2}},
	} {
		if got, err := side.QP.(*queuePair).attributes(); err != nil || got != side.want {
			t.Errorf("%+v, %v, want %+v", got, err, side.want)
		}
	}
	// Without a Receive, a Send fails after the second retry.
	if _, err := pair.A.QP.PostSend([]verbs.SendWR{{ID: 1, Op: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	must(t, pair.A.SendCQ.Wait(ctx))
	var wc [1]verbs.WC
	if pair.A.SendCQ.Poll(wc[:]); wc[0].Status != verbs.WCRNRRetryExcErr {
		t.Errorf("it ended with %v", wc[0].Status)
	}
}
