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

// What operators set is what the queue pairs have, on both sides. iWARP has none
// of it.
func TestTuning(t *testing.T) {
	p := newProvider(t, Config{Tuning: tuning.Settings{
		RetryCount: 3, RNRRetryCount: 2, RNRTimer: 5 * time.Millisecond, AckTimeout: 67 * time.Millisecond,
	}})
	defer verbstest.CloseProvider(t, p)
	pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
	defer pair.Close()
	if p.first.iwarp() {
		pair.Exchange(1)
		return
	}
	want := timers{rnrTimer: 18, ackTimeout: 14, retries: 3, rnrRetries: 2}
	for _, side := range []*verbstest.Side{pair.A, pair.B} {
		if got, err := side.QP.(*queuePair).timers(); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	// Without a Receive, a Send fails after the second retry.
	if _, err := pair.A.QP.PostSend([]verbs.SendWR{{ID: 1, Op: verbs.OpSend, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	if err := pair.A.SendCQ.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	var wc [1]verbs.WC
	if pair.A.SendCQ.Poll(wc[:]); wc[0].Status != verbs.WCRNRRetryExcErr {
		t.Errorf("it ended with %v", wc[0].Status)
	}
}
