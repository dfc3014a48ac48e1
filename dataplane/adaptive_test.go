package dataplane

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// slow is a service that takes its time, by the clock of a bubble.
type slow struct {
	next oncrpc.Handler
	time time.Duration
}

func (s *slow) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	time.Sleep(s.time)
	return s.next.ServeRPC(ctx, call, reply)
}

// load is a client that keeps calls in flight, and checks every answer.
type load struct {
	t    *testing.T
	c    *rpcrdma.Client
	stop chan struct{}
	busy sync.WaitGroup
}

func startLoad(t *testing.T, c *rpcrdma.Client, depth int) *load {
	l := &load{t: t, c: c, stop: make(chan struct{})}
	for i := range depth {
		l.busy.Go(func() { l.calls(byte(i)) })
	}
	return l
}

func (l *load) calls(with byte) {
	args := binary.BigEndian.AppendUint32(nil, 512)
	args = append(args, bytes.Repeat([]byte{with}, 512)...)
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		call := rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho, Args: args, MaxReply: len(args)}
		if err := l.c.Call(context.Background(), &call); err != nil || !bytes.Equal(call.Reply, args) {
			l.t.Errorf("%v, %d bytes", err, len(call.Reply))
			return
		}
	}
}

func (l *load) end() {
	close(l.stop)
	l.busy.Wait()
}

// adaptiveBed is a plane in a bubble, with an echo service that takes 100 ms
// and receives so large that MinMemory is for a few dozen credits.
type adaptiveBed struct {
	*plane
	addr    string
	mu      sync.Mutex
	byID    map[string]uint32 // weights
	fixed   string            // the connection with the policy fixed, at 40
	general rpcrdma.Settings
}

func newAdaptiveBed(t *testing.T, memory int64) *adaptiveBed {
	b := &adaptiveBed{general: rpcrdma.DefaultSettings(), byID: make(map[string]uint32)}
	b.general.CreditsPolicy, b.general.InlineReceiveSize = rpcrdma.CreditsAdaptive, 64<<10
	b.plane = newPlane(t, Config{Memory: memory, Resolver: b.resolve})
	b.Start()
	b.addr = b.listen("l", &slow{echo.New(), 100 * time.Millisecond})
	return b
}

func (b *adaptiveBed) resolve(k ConnKey) *rpcrdma.Settings {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.general
	if w := b.byID[k.ID]; w > 0 {
		s.CreditsWeight = w
	}
	if k.ID == b.fixed {
		s.CreditsPolicy, s.CreditsMax = rpcrdma.CreditsFixed, 40
	}
	return &s
}

// change changes settings of all connections, at once.
func (b *adaptiveBed) change(f func()) {
	b.mu.Lock()
	f()
	b.mu.Unlock()
	b.ApplySettings(Update{Resolve: b.resolve}, nil)
	b.next(ConnChanged)
}

// granted returns the credits granted to a connection.
func (b *adaptiveBed) granted(id string) int {
	b.t.Helper()
	c, err := b.Connection(id)
	if err != nil {
		b.t.Fatal(err)
	}
	return int(c.CreditsGranted)
}

// memoryWithin checks that the memory stays within the budget.
func (b *adaptiveBed) memoryWithin() {
	b.t.Helper()
	for _, s := range b.Stats() {
		if s.Memory.Registered > s.Memory.Limit || s.Memory.Limit > b.Memory() {
			b.t.Errorf("memory %+v, budget %d", s.Memory, b.Memory())
		}
	}
}

// TestAdaptiveWeights: two busy connections of weights 1 and 3 share a small
// budget accordingly, and no call fails.
func TestAdaptiveWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptiveBed(t, MinMemory)
		one, i := b.dial(b.addr, nil)
		three, j := b.dial(b.addr, nil)
		b.change(func() { b.byID[j.ID] = 3 })
		loads := []*load{startLoad(t, one, 64), startLoad(t, three, 64)}
		time.Sleep(3 * time.Second)
		x, y := b.granted(i.ID), b.granted(j.ID)
		if x+y < 50 || y < 3*x-4 || y > 3*x+4 {
			t.Errorf("granted %d and %d, want 1:3", x, y)
		}
		b.memoryWithin()
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			if x2, y2 := b.granted(i.ID), b.granted(j.ID); x2 != x || y2 != y {
				t.Errorf("granted %d and %d, then %d and %d", x, y, x2, y2)
			}
		}
		for _, l := range loads {
			l.end()
		}
	})
}

// TestFixedFirst: a connection with the fixed policy has its configured grant, and the others
// divide the rest.
func TestFixedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptiveBed(t, MinMemory)
		fixed, i := b.dial(b.addr, nil)
		b.change(func() { b.fixed = i.ID })
		other, j := b.dial(b.addr, nil)
		loads := []*load{startLoad(t, fixed, 64), startLoad(t, other, 64)}
		time.Sleep(3 * time.Second)
		if x, y := b.granted(i.ID), b.granted(j.ID); x != 40 || y < 15 || y > 30 {
			t.Errorf("fixed has %d, adaptive %d", x, y)
		}
		for _, l := range loads {
			l.end()
		}
	})
}

// TestAdaptiveExhausted: the budget shrinks while 64 calls are in flight. None of them fails.
// Grants become smaller, but not below the minimum, and another peer can connect and work.
// When the budget is back, so are the grants.
func TestAdaptiveExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptiveBed(t, 256<<20)
		c, info := b.dial(b.addr, nil)
		l := startLoad(t, c, 64)
		time.Sleep(3 * time.Second)
		if n := b.granted(info.ID); n != 64 {
			t.Errorf("with plenty: granted %d", n)
		}
		b.SetMemory(MinMemory)
		other, info2 := b.dial(b.addr, nil)
		l2 := startLoad(t, other, 64)
		time.Sleep(3 * time.Second)
		if x, y := b.granted(info.ID), b.granted(info2.ID); x > 40 || y > 40 || x < 20 || y < 20 {
			t.Errorf("exhausted: granted %d and %d", x, y)
		}
		b.memoryWithin()
		b.SetMemory(256 << 20)
		time.Sleep(3 * time.Second)
		if x, y := b.granted(info.ID), b.granted(info2.ID); x != 64 || y != 64 {
			t.Errorf("with plenty again: granted %d and %d", x, y)
		}
		l.end()
		l2.end()
	})
}

// TestIdleLeaveMemory: idle clients hold receives, but no memory for replies. A busy client gets
// what that leaves, whatever policy the idle ones have.
func TestIdleLeaveMemory(t *testing.T) {
	for name, policy := range map[string]rpcrdma.CreditsPolicy{"adaptive": rpcrdma.CreditsAdaptive, "fixed": rpcrdma.CreditsFixed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				idle, busy := rpcrdma.DefaultSettings(), rpcrdma.DefaultSettings()
				idle.CreditsPolicy, idle.CreditsMax = policy, credit.Initial
				busy.CreditsPolicy = rpcrdma.CreditsAdaptive
				now := &idle
				p := newPlane(t, Config{Memory: MinMemory, Resolver: func(ConnKey) *rpcrdma.Settings { return now }})
				p.Start()
				addr := p.listen("l", &slow{echo.New(), 100 * time.Millisecond})
				for range 60 { // 2.4 of the 6 MiB for receives
					c, _ := p.dial(addr, nil)
					if err := c.Call(t.Context(), &rpcrdma.Call{Program: echo.Program, Version: echo.Version}); err != nil {
						t.Fatal(err)
					}
				}
				now = &busy
				c, i := p.dial(addr, nil)
				l := startLoad(t, c, int(busy.CreditsMax))
				time.Sleep(3 * time.Second)
				if got, err := p.Connection(i.ID); err != nil || got.CreditsGranted != busy.CreditsMax {
					t.Errorf("beside idle clients: granted %d, %v", got.CreditsGranted, err)
				}
				l.end()
			})
		})
	}
}

// TestDivisionAsked: clients that find no memory make the division look again, at the next tick.
// The times of the policy do not become shorter: a client that calls in bursts keeps its credits.
func TestDivisionAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptiveBed(t, 256<<20)
		c, i := b.dial(b.listen("quick", &slow{echo.New(), time.Millisecond}), nil)
		burst := func() {
			l := startLoad(t, c, 64)
			time.Sleep(10 * time.Millisecond)
			l.end()
			for range 40 {
				b.division.ask()
				time.Sleep(time.Millisecond)
			}
		}
		for range 60 {
			burst()
		}
		if n := b.granted(i.ID); n != 64 {
			t.Errorf("granted %d", n)
		}
	})
}

// TestAdaptiveLive: policy, bounds and weight changed under load hold from the
// next answers on.
func TestAdaptiveLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptiveBed(t, 256<<20)
		c, info := b.dial(b.addr, nil)
		l := startLoad(t, c, 64)
		for _, step := range []struct {
			what   string
			change func(*rpcrdma.Settings)
			want   int
		}{
			{"max lowered", func(s *rpcrdma.Settings) { s.CreditsMax = 20 }, 20},
			{"policy fixed", func(s *rpcrdma.Settings) { s.CreditsPolicy, s.CreditsMax = rpcrdma.CreditsFixed, 30 }, 30},
			{"policy adaptive", func(s *rpcrdma.Settings) { s.CreditsPolicy = rpcrdma.CreditsAdaptive }, 30},
			{"max raised", func(s *rpcrdma.Settings) { s.CreditsMax = 50 }, 50},
			{"weight", func(s *rpcrdma.Settings) { s.CreditsWeight = 100 }, 50},
		} {
			b.change(func() { step.change(&b.general) })
			time.Sleep(3 * time.Second)
			if n := b.granted(info.ID); n != step.want {
				t.Errorf("%s: granted %d, want %d", step.what, n, step.want)
			}
		}
		l.end()
		b.change(func() { b.general.CreditsMin = 40 })
		time.Sleep(3 * time.Second)
		for range 2 { // the first brings receives
			if err := null(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.granted(info.ID); n < 40 {
			t.Errorf("idle: granted %d, the minimum is 40", n)
		}
	})
}

// TestListenersShareMemory: a busy listener has most of the budget, an idle one has enough to
// begin, and together they have at most the budget.
func TestListenersShareMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptiveBed(t, 64<<20)
		idle := b.listen("idle", echo.New())
		b.mu.Lock()
		b.general.CreditsMax = 1024
		b.mu.Unlock()
		many := rpcrdma.DefaultSettings()
		many.CreditsMax = 256
		c2, _ := b.dial(idle, nil)
		c, _ := b.dial(b.addr, &many)
		l := startLoad(t, c, 256)
		time.Sleep(4 * time.Second)
		limits := make(map[string]int64)
		var sum int64
		for _, s := range b.Stats() {
			limits[s.Name] = s.Memory.Limit
			sum += s.Memory.Limit
		}
		if sum > b.Memory() || limits["l"] < b.Memory()*3/4 || limits["idle"] < rpcrdma.MinMemoryLimit {
			t.Errorf("limits %v, budget %d", limits, b.Memory())
		}
		if err := null(t.Context(), c2); err != nil {
			t.Error(err)
		}
		l.end()
	})
}

func TestSetMemory(t *testing.T) {
	p := newPlane(t, Config{})
	if n := p.Memory(); n != DefaultMemory {
		t.Errorf("default %d", n)
	}
	for n, want := range map[int64]int64{
		0: DefaultMemory, MinMemory: MinMemory, 1 << 33: 1 << 33, -1: MinMemory, 1: MinMemory, MinMemory - 1: MinMemory, MaxMemory + 1: MaxMemory,
	} {
		if p.SetMemory(n); p.Memory() != want {
			t.Errorf("%d: %d", n, p.Memory())
		}
	}
}

// A new listener has its part of the memory before its first peer comes, not only after the
// division's next step.
func TestMemoryBeforePeers(t *testing.T) {
	p := newPlane(t, Config{}) // not started: the division's goroutine doesn't run
	p.listen("a", echo.New())
	p.listen("b", echo.New())
	p.division.mu.Lock()
	defer p.division.mu.Unlock()
	for _, name := range []string{"a", "b"} {
		if n := p.listeners[name].sharing.memory; n != DefaultMemory/2 {
			t.Errorf("listener %s has %d bytes", name, n)
		}
	}
}

// TestAdaptiveBegins: the first reply grants what a connection begins with, before
// anybody has looked at its load, and so does the first one after a change of policy.
func TestAdaptiveBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newAdaptiveBed(t, DefaultMemory)
		c, i := b.dial(b.listen("fast", echo.New()), nil)
		call := func() int {
			t.Helper()
			if err := c.Call(t.Context(), &rpcrdma.Call{Program: echo.Program, Version: echo.Version}); err != nil {
				t.Fatal(err)
			}
			return b.granted(i.ID)
		}
		if n := call(); n != credit.Initial {
			t.Errorf("the first reply grants %d", n)
		}
		b.change(func() { b.fixed = i.ID })
		time.Sleep(time.Second)
		call()
		if n := call(); n != 40 {
			t.Errorf("fixed: %d", n)
		}
		b.change(func() { b.fixed = "" })
		if n := call(); n < credit.Initial {
			t.Errorf("adaptive again: %d", n)
		}
	})
}

// TestDivisionRests: while all connections have the fixed policy and few come, go or change,
// one tick in splitEvery divides. With the adaptive policy each one does. In any case the
// listeners' memory is divided every splitEvery ticks.
func TestDivisionRests(t *testing.T) {
	p := newPlane(t, Config{})
	p.Start()
	v := &p.division
	v.end() // the ticks are the test's
	address := p.listen("l", echo.New())
	undivided := 0
	ticks := func(what string, want ...bool) {
		t.Helper()
		for i, w := range want {
			rests := v.rests(p.Dataplane)
			if !rests {
				v.step(p.Dataplane, false)
			}
			if undivided++; v.unsplit == 0 {
				undivided = 0
			}
			if undivided > splitEvery {
				t.Fatalf("%s: tick %d: the listeners' memory was not divided for %d ticks", what, i, undivided)
			}
			if rests != w {
				t.Fatalf("%s: tick %d rests: %v", what, i, rests)
			}
		}
	}
	rest := slices.Repeat([]bool{true}, splitEvery-1)
	ticks("without connections", append(rest, false, true)...)
	c, _ := p.dial(address, nil)
	ticks("a new connection", slices.Concat([]bool{false}, rest[:7], []bool{false, true})...)
	p.ApplySettings(Update{Resolve: resolver(func(s *rpcrdma.Settings) { s.CreditsPolicy = rpcrdma.CreditsAdaptive })}, nil)
	p.next(ConnChanged)
	ticks("the adaptive policy", false, false, false)
	p.ApplySettings(Update{Resolve: resolver(func(*rpcrdma.Settings) {})}, nil)
	p.next(ConnChanged)
	ticks("the fixed policy", false, true, true)
	c.Close()
	p.next(ConnDown)
	ticks("a connection that went", slices.Concat([]bool{false, true, false}, rest, []bool{false, true})...)
	for range 2 * few {
		p.dial(address, nil)
	}
	ticks("many new connections", false, true)
	for range 2 {
		p.dial(address, nil)
	}
	ticks("an eighth", true)
	p.dial(address, nil)
	ticks("more", false, true)
}
