package dataplane

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestTurnstile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &turnstile{limit: 2}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		in := make(chan bool, 10)
		for range 5 {
			go func() { in <- g.enter(ctx) }()
		}
		expect := func(n int, what string) {
			t.Helper()
			synctest.Wait()
			if len(in) != n {
				t.Fatalf("%s: %d went through, want %d", what, len(in), n)
			}
			for range n {
				if !<-in {
					t.Fatalf("%s: turned away", what)
				}
			}
		}
		expect(2, "a limit of 2")
		g.leave()
		expect(1, "one left")
		g.setLimit(3)
		expect(1, "a limit of 3")
		g.setLimit(1)
		g.leave()
		g.leave()
		expect(0, "one inside, a limit of 1")
		cancel()
		synctest.Wait()
		if len(in) != 1 || <-in {
			t.Error("the one that waited was not turned away")
		}
		g.leave()
		if g.used != 0 {
			t.Errorf("%d inside at the end", g.used)
		}
	})
}
