package siege

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Tally counts an attacker's actions and their effects.
type Tally struct {
	Opened  int64 `json:"opened"`  // connections
	Refused int64 `json:"refused"` // connections that were not established
	Ended   int64 `json:"ended"`   // connections that rdmad ended
	Calls   int64 `json:"calls"`   // calls, requests, messages
	// Breaches lists attempts that succeeded and must not succeed.
	Breaches []string `json:"breaches"`
}

// maxBreaches is how many breaches a tally lists.
const maxBreaches = 10

// field is one running attacker.
type field struct {
	target Target
	say    io.Writer // receives the line "ready"

	opened, refused, ended, calls atomic.Int64
	once                          sync.Once
	file                          []byte // handle of the large file, for attacks withFile

	mu       sync.Mutex
	breaches []string
}

// Execute runs an attack until ctx ends. It writes "ready" once the attacker is
// in position, and at the end its Tally as a line of JSON.
func Execute(ctx context.Context, a *Attack, t Target, out io.Writer) error {
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

// ready reports that the attacker is in position.
func (f *field) ready() { f.once.Do(func() { fmt.Fprintln(f.say, "ready") }) }

// breach records an attempt that succeeded and must not succeed.
func (f *field) breach(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.breaches) < maxBreaches {
		f.breaches = append(f.breaches, fmt.Sprintf(format, args...))
	}
}

// scaled returns the number of connections for an attack on memory.
func (f *field) scaled(n int) int { return max(n/max(f.target.Scale, 1), 1) }

// again is the pause before a slot's next connection. Attackers that hold
// connections must not become a storm when they lose them.
const again = time.Second

// ramp is the time between the first connections of two slots.
const ramp = time.Millisecond

// slot is one of many connections that an attacker keeps up.
type slot struct {
	*field
	i       int
	arrived func()
	isUp    bool // the current connection has served the attack
}

// slots keeps n connections open until ctx ends. serve makes and uses one
// connection; slots calls it again when it returns. The attacker is in position
// when each slot has arrived or failed once.
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

// one calls serve once and counts the result.
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

// work is what an attacker does until ctx ends.
type work func(ctx context.Context, f *field) error

// keep keeps n connections open. open makes one, use uses it until it ends.
func keep[C any](n int, open func(context.Context, *slot) (C, error), use func(context.Context, *slot, C) error) work {
	return func(ctx context.Context, f *field) error {
		return f.slots(ctx, n, func(ctx context.Context, s *slot) error {
			c, err := open(ctx, s)
			if err != nil {
				return err
			}
			return use(ctx, s, c)
		})
	}
}

// keepScaled is keep for an attack on memory.
func keepScaled[C any](n int, open func(context.Context, *slot) (C, error), use func(context.Context, *slot, C) error) work {
	return func(ctx context.Context, f *field) error { return keep(f.scaled(n), open, use)(ctx, f) }
}

// withFile finds the large file before w.
func withFile(w work) work {
	return func(ctx context.Context, f *field) (err error) {
		if f.file, err = f.handle(ctx); err != nil {
			return err
		}
		return w(ctx, f)
	}
}

// hold, readSlowly and readNothing keep a connection and read from it:
// everything, 60 KB/s, or nothing.
func hold[C net.Conn](_ context.Context, s *slot, conn C) error { return s.hold(conn) }

func readSlowly(ctx context.Context, _ *slot, conn *net.TCPConn) error {
	return slowly(ctx, conn, 60_000)
}

func readNothing(ctx context.Context, _ *slot, conn *net.TCPConn) error { return unread(ctx, conn) }

// hold counts the slot's connection as open and reads from it until it ends.
func (s *slot) hold(conn net.Conn) error {
	s.up()
	_, err := io.Copy(io.Discard, conn)
	return err
}

// up records that the slot's connection serves the attack.
func (s *slot) up() {
	s.isUp = true
	s.opened.Add(1)
	s.arrived()
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// The rate of a storm per second, and its number of goroutines.
const (
	perSecond = 2000
	stormers  = 64
)

// storm calls one up to perSecond times per second, from several goroutines.
// Connections that one made are reset when it returns.
func storm(one func(ctx context.Context, i int, t *Target) error) work {
	return func(ctx context.Context, f *field) error {
		turns := make(chan int)
		var all sync.WaitGroup
		for range stormers {
			all.Go(func() {
				for i := range turns {
					f.turn(ctx, i, one)
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
}

func (f *field) turn(ctx context.Context, i int, one func(context.Context, int, *Target) error) {
	mine, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := one(mine, i, &f.target); err != nil && ctx.Err() == nil {
		f.refused.Add(1)
	} else {
		f.opened.Add(1)
	}
	f.ready()
}
