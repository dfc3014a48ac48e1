package conn

import (
	"errors"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestLongCallbackFirst: a call to the client of several transmissions that is
// made before the first grant waits for that. Short calls pass it, and the answer
// to one of them brings the grant. It fails only when that is too small.
func TestLongCallbackFirst(t *testing.T) {
	const long = 6000 // two transmissions
	for name, c := range map[string]struct {
		client, completed int
		planned           error
	}{"enough": {8, 4, nil}, "too little": {1, 2, ErrCallTooLong}} {
		t.Run(name, func(t *testing.T) {
			ends := []*duplexEnd{newDuplexEnd(t, false, groupSettings(8, c.client)), newDuplexEnd(t, true, groupSettings(8, 8))}
			server := ends[1]
			server.call(long, 24)
			server.call(long, 24)
			first := slices.Clone(server.open)
			if len(server.out) != 0 || len(first) != 2 || server.q.spend.InFlight() != 0 {
				t.Fatalf("%d messages, %d calls open", len(server.out), len(first))
			}
			server.call(40, 5000) // passes them, though its reply may take two receives
			server.call(40, 24)   // waits for the credit of the one before
			if len(server.out) != 1 || server.q.spend.InFlight() != 1 {
				t.Fatalf("%d messages", len(server.out))
			}
			drain(ends, func(int) int { return 0 })
			settledEnds(t, ends)
			if server.completed != c.completed {
				t.Errorf("%d calls completed, want %d", server.completed, c.completed)
			}
			if err := server.q.Plan(first[0]); !errors.Is(err, c.planned) {
				t.Errorf("planned now: %v, want %v", err, c.planned)
			}
		})
	}
}

// TestLongCallbackGivenUp: what waits for the first grant can be given up, and
// fails when credits.backchannel becomes too small for it.
func TestLongCallbackGivenUp(t *testing.T) {
	ends := []*duplexEnd{newDuplexEnd(t, false, groupSettings(8, 8)), newDuplexEnd(t, true, groupSettings(8, 8))}
	server := ends[1]
	for range 2 {
		server.call(6000, 24)
	}
	first := server.open[0]
	server.fromQ(server.q.Cancel(first, nil))
	if !errors.Is(first.Err, ErrCanceled) || len(server.open) != 1 {
		t.Fatalf("%v, %d calls open", first.Err, len(server.open))
	}
	server.set(groupSettings(8, 1))
	if len(server.open) != 0 || len(server.q.waiting) != 0 {
		t.Errorf("%d calls open, %d wait", len(server.open), len(server.q.waiting))
	}
}

// TestSmallReceivesBackward: roles of the reverse direction keep to what the peer
// told in its characteristics, also below what every peer of version 2 takes.
func TestSmallReceivesBackward(t *testing.T) {
	e := newDuplexEnd(t, true, groupSettings(8, 8)) // it heard of the peer
	if e.q.Connected(1024, 4096); e.q.SendLimit() != 1024 {
		t.Errorf("calls to the client of %d bytes", e.q.SendLimit())
	}
	c := newDuplexEnd(t, false, groupSettings(8, 8))
	if c.s.TakesExactly(1024); c.s.SendLimit() != 1024 {
		t.Errorf("answers to a server of %d bytes", c.s.SendLimit())
	}
}

// TestNoneWhileOneIsServed: when the client announces that it takes no calls, or the settings
// allow none any more, those that wait for a credit fail at once, and the one in flight is
// finished.
func TestNoneWhileOneIsServed(t *testing.T) {
	for name, end := range map[string]func(q *Requester) []Action{
		"announced": func(q *Requester) []Action {
			told := q.chars.Told
			told.Backward = rpcrdma2.BackwardNone
			return q.Heard(&told, nil)
		},
		"settings": func(q *Requester) []Action { return q.Withhold(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			ends := []*duplexEnd{newDuplexEnd(t, false, groupSettings(8, 8)), newDuplexEnd(t, true, groupSettings(8, 8))}
			server := ends[1]
			server.call(40, 24)
			server.call(6000, 24)
			server.call(40, 24)
			waiting := slices.Clone(server.open[1:])
			server.fromQ(end(server.q))
			if len(server.open) != 1 || server.q.spend.InFlight() != 1 {
				t.Errorf("%d calls open, %d in flight", len(server.open), server.q.spend.InFlight())
			}
			for _, o := range waiting {
				if !errors.Is(o.Err, ErrNoBackward) {
					t.Errorf("%v", o.Err)
				}
			}
			drain(ends, func(int) int { return 0 })
			settledEnds(t, ends)
			if server.completed != 3 {
				t.Errorf("%d calls completed", server.completed)
			}
		})
	}
}

// TestNoneWhileWaiting: a call to the client that waits when the client tells that
// it takes none is not sent.
func TestNoneWhileWaiting(t *testing.T) {
	e := newDuplexEnd(t, true, groupSettings(8, 8))
	o := &Outgoing{StreamLen: 40, MaxReply: 24}
	must(t, e.q.Plan(o))
	if now, err := e.q.Begin(o); !now || err != nil {
		t.Fatal(now, err)
	}
	told := e.q.chars.Told
	told.Backward = rpcrdma2.BackwardNone
	e.q.Heard(&told, nil)
	if _, sent := e.q.Launch(o, nil); sent || !errors.Is(o.Err, ErrNoBackward) {
		t.Errorf("sent %v, %v", sent, o.Err)
	}
}
