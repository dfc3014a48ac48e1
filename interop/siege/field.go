package siege

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Tally counts what an attacker did, and its effects.
type Tally struct {
	Opened  int64 `json:"opened"`  // connections
	Refused int64 `json:"refused"` // connections that did not come about
	Ended   int64 `json:"ended"`   // connections that rdmad ended
	Calls   int64 `json:"calls"`   // calls, requests, messages
	// Breaches lists attempts that succeeded and must not.
	Breaches []string `json:"breaches"`
}

// maxBreaches is how many breaches a tally lists.
const maxBreaches = 10

// field is one attacker at work.
type field struct {
	target Target
	say    io.Writer // for the line "ready"

	opened, refused, ended, calls atomic.Int64
	once                          sync.Once

	mu       sync.Mutex
	breaches []string
}

// Execute runs an attack until ctx ends. It writes "ready" when the attacker is in
// position, and at the end its tally as a line of JSON.
func Execute(ctx context.Context, a *Attack, t Target, out io.Writer) error {
	// A real attacker does not use the innocent clients' processors.
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	f := &field{target: t, say: out}
	if err := a.run(ctx, f); err != nil && ctx.Err() == nil {
		return err
	}
	return json.NewEncoder(out).Encode(f.tally())
}

func (f *field) tally() Tally {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Tally{
		Opened: f.opened.Load(), Refused: f.refused.Load(), Ended: f.ended.Load(), Calls: f.calls.Load(), Breaches: f.breaches,
	}
}

// ready says that the attacker is in position.
func (f *field) ready() { f.once.Do(func() { fmt.Fprintln(f.say, "ready") }) }

// breach notes an attempt that succeeded and must not.
func (f *field) breach(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.breaches) < maxBreaches {
		f.breaches = append(f.breaches, fmt.Sprintf(format, args...))
	}
}

// scaled is a number of connections of an attack on memory.
func (f *field) scaled(n int) int { return max(n/max(f.target.Scale, 1), 1) }

// again is the pause before a slot's next connection. Attackers that hold
// connections make no storm of those that they lose.
const again = time.Second

// ramp is the time between the first connections of two slots.
const ramp = time.Millisecond

// slot is one of many connections that an attacker keeps up.
type slot struct {
	*field
	i       int
	arrived func()
	isUp    bool // the connection of this turn served the attack
}

// slots keeps n connections up until ctx ends: serve makes and uses one, and is
// called again when it returns. The attacker is in position when each slot has
// arrived or failed once.
func (f *field) slots(ctx context.Context, n int, serve func(ctx context.Context, s *slot) error) error {
	var all, missing sync.WaitGroup
	missing.Add(n)
	for i := range n {
		s := &slot{field: f, i: i, arrived: sync.OnceFunc(missing.Done)}
		all.Go(func() {
			defer s.arrived()
			pause(ctx, time.Duration(i)*ramp)
			for ctx.Err() == nil {
				s.one(ctx, serve)
				s.arrived()
				pause(ctx, again)
			}
		})
	}
	missing.Wait()
	f.ready()
	all.Wait()
	return nil
}

// one serves a connection once.
func (s *slot) one(ctx context.Context, serve func(context.Context, *slot) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.isUp = false
	err := serve(ctx, s)
	switch {
	case ctx.Err() != nil:
	case err != nil && !s.isUp:
		s.refused.Add(1)
	default:
		s.ended.Add(1)
	}
}

// hold counts the slot's connection as open and keeps it, reading what comes,
// until it ends.
func (s *slot) hold(conn net.Conn) error {
	s.up()
	_, err := io.Copy(io.Discard, conn)
	return err
}

// up says that the slot's connection serves the attack.
func (s *slot) up() {
	s.isUp = true
	s.opened.Add(1)
	s.arrived()
}

// pause waits for a time, or for ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// storm calls one up to perSecond times per second, from several goroutines, until
// ctx ends.
func (f *field) storm(ctx context.Context, perSecond, workers int, one func(ctx context.Context, i int) error) error {
	turns := make(chan int)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := range turns {
				if err := one(ctx, i); err != nil && ctx.Err() == nil {
					f.refused.Add(1)
				} else {
					f.opened.Add(1)
				}
				f.ready()
			}
		})
	}
	const tick = 10 * time.Millisecond
	for i, ticks := 0, 0; ctx.Err() == nil; ticks++ {
		for ; i < ticks*perSecond/int(time.Second/tick) && ctx.Err() == nil; i++ {
			turns <- i
		}
		pause(ctx, tick)
	}
	close(turns)
	all.Wait()
	return nil
}
