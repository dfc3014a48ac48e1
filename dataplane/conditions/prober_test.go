package conditions

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// upstream is something to be probed.
type upstream struct {
	looks  atomic.Int64
	reason atomic.Pointer[Reason]
	block  chan struct{} // a look waits for it, whatever its context says
	heeds  bool          // a look waits for its context
}

func (u *upstream) look(ctx context.Context) (*Reason, string) {
	u.looks.Add(1)
	if u.block != nil {
		<-u.block
	}
	if u.heeds {
		<-ctx.Done()
		return UpstreamSilent, ctx.Err().Error()
	}
	return u.reason.Load(), "why"
}

func (u *upstream) check(name string) Check {
	return Check{
		Kind: Upstream, Name: name, Every: 30 * time.Second, BackOff: true, Timeout: 4 * time.Second,
		Before: UpstreamUnprobed, Overdue: UpstreamSilent, Look: u.look,
	}
}

func expect(t *testing.T, r *Registry, want *Reason) {
	t.Helper()
	synctest.Wait()
	if c := r.List().Find(want.Kind, "nfs"); c == nil || c.Reason != want {
		t.Errorf("got %v, want %s", c, want.Name)
	}
}

// A check that fails is repeated soon, then less and less often, and recovers.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		p := NewProber(r, nolog())
		u := &upstream{}
		u.reason.Store(UpstreamGone)
		p.Keep([]Check{u.check("nfs")})
		expect(t, r, UpstreamGone)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		// 1+2+4+8+16 s, then every 30 s.
		if n := u.looks.Load(); n < 18 || n > 36 {
			t.Errorf("%d looks in 10 minutes", n)
		}
		u.reason.Store(UpstreamAnswers)
		time.Sleep(38 * time.Second)
		expect(t, r, UpstreamAnswers)
		u.reason.Store(UpstreamGone)
		p.Look()
		expect(t, r, UpstreamGone)
		began := u.looks.Load()
		time.Sleep(5 * time.Second)
		if n := u.looks.Load() - began; n < 1 {
			t.Errorf("%d looks within 5 s of the failure", n)
		}
		p.Close()
	})
}

// A look that hangs is reported after its timeout. It blocks no other check and does not run
// twice at once.
func TestHungLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		p := NewProber(r, nolog())
		hung, well := &upstream{block: make(chan struct{})}, &upstream{}
		hung.reason.Store(UpstreamAnswers)
		well.reason.Store(UpstreamAnswers)
		p.Keep([]Check{hung.check("nfs"), well.check("other")})
		expect(t, r, UpstreamUnprobed)
		time.Sleep(6 * time.Second)
		expect(t, r, UpstreamSilent)
		for range 10 {
			p.Look()
			time.Sleep(time.Minute)
		}
		if n := hung.looks.Load(); n != 1 {
			t.Errorf("%d looks at once", n)
		}
		if n := well.looks.Load(); n < 15 {
			t.Errorf("only %d looks at the other", n)
		}
		close(hung.block)
		expect(t, r, UpstreamAnswers)
		p.Close()
	})
}

// TestNothingToLookAt: a check that finds nothing to look at has no condition.
func TestNothingToLookAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		p := NewProber(r, nolog())
		u := &upstream{}
		u.reason.Store(UpstreamGone)
		p.Keep([]Check{u.check("nfs")})
		expect(t, r, UpstreamGone)
		u.reason.Store(nil)
		p.Look()
		synctest.Wait()
		if c := r.List().Find(Upstream, "nfs"); c != nil {
			t.Errorf("the condition is still %v", c)
		}
		u.reason.Store(UpstreamAnswers)
		p.Look()
		expect(t, r, UpstreamAnswers)
		p.Close()
	})
}

// A hanging check does not prevent the prober's end, and its later result is ignored.
func TestCloseWhileHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		p := NewProber(r, nolog())
		hung := &upstream{block: make(chan struct{})}
		hung.reason.Store(UpstreamGone)
		p.Keep([]Check{hung.check("nfs")})
		time.Sleep(time.Second)
		p.Keep(nil)
		if l := r.List(); len(l) != 0 {
			t.Errorf("left are %v", l)
		}
		p.Keep([]Check{hung.check("nfs")})
		time.Sleep(time.Second)
		p.Close()
		close(hung.block)
		expect(t, r, UpstreamUnprobed)
		p.Keep([]Check{hung.check("late")})
		if l := r.List(); len(l) != 1 {
			t.Errorf("a closed prober begins checks: %v", l)
		}
	})
}

// Checks that hang do not delay the prober's end one after the other.
func TestCloseWhileManyHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewProber(NewRegistry(), nolog())
		hung := &upstream{block: make(chan struct{})}
		hung.reason.Store(UpstreamGone)
		var checks []Check
		for i := range 20 {
			checks = append(checks, hung.check(strconv.Itoa(i)))
		}
		p.Keep(checks)
		synctest.Wait()
		began := time.Now()
		p.Close()
		if waited := time.Since(began); waited > checks[0].Timeout {
			t.Errorf("the end takes %v", waited)
		}
		close(hung.block)
	})
}

// A look ends at its timeout and can be requested at once. A check of another thing in its
// place begins anew.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		p := NewProber(r, nolog())
		u := &upstream{heeds: true}
		p.Keep([]Check{u.check("nfs")})
		time.Sleep(4 * time.Second)
		expect(t, r, UpstreamSilent)
		if c := r.List()[0]; c.Message != context.DeadlineExceeded.Error() {
			t.Errorf("got %v", c)
		}
		other := &upstream{}
		other.reason.Store(UpstreamAnswers)
		c := other.check("nfs")
		c.Of = other
		p.Keep([]Check{c})
		expect(t, r, UpstreamAnswers)
		p.Keep([]Check{c})
		other.reason.Store(UpstreamGone)
		expect(t, r, UpstreamAnswers)
		p.Look()
		expect(t, r, UpstreamGone)
		if n := other.looks.Load(); n != 2 {
			t.Errorf("%d looks", n)
		}
		p.Close()
	})
}
