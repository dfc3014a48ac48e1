package dataplane

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// everything is an update of keys on all connections.
func everything(resolve Resolver, keys ...settings.Key) Update {
	u := Update{Resolve: resolve}
	for _, k := range keys {
		u.Keys = u.Keys.With(k)
	}
	return u
}

// effect is what the control plane makes of a fact.
type effect struct {
	ConnID  string
	Outcome settings.Outcome
	Reason  string
}

func (u Update) effects(apply func(Update, func(*Fact))) (out []effect) {
	apply(u, func(f *Fact) {
		e := effect{ConnID: f.Conn.ID}
		e.Outcome, e.Reason = settings.Fold(u.Keys, f.Now, f.AtConnect, f.Peer)
		out = append(out, e)
	})
	return out
}

// applied are the effects of an update, foreseen those that a preview names.
func (p *plane) applied(u Update) []effect { return u.effects(p.ApplySettings) }

func (p *plane) foreseen(u Update) []effect { return u.effects(p.PreviewSettings) }

func TestSettingsOfNewConnections(t *testing.T) {
	var asked []ConnKey
	p := newPlane(t, Config{Resolver: func(k ConnKey) *rpcrdma.Settings {
		asked = append(asked, k)
		s := rpcrdma.DefaultSettings()
		s.InlineSendMax = 2048
		return &s
	}})
	addr := p.listen("a", echo.New())
	p.Start()
	_, up := p.dial(addr, nil)
	if len(asked) != 2 || asked[0] != (ConnKey{Listener: "a"}) || asked[1] != up.ConnKey {
		t.Errorf("asked for %+v, connection is %+v", asked, up.ConnKey)
	}
	if up.Settings.InlineSendMax != 2048 || up.InlineSend != 2048 {
		t.Errorf("settings %+v, in force %d", up.Settings, up.InlineSend)
	}
}

func TestApplySettings(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	p.dial(addr, nil)
	plain := rpcrdma.DefaultSettings()
	plain.RemoteInvalidationAccept = false
	plain.InlineReceiveSize = 2048
	p.dial(addr, &plain)

	smaller := resolver(func(s *rpcrdma.Settings) { s.InlineSendMax = 1024 })
	want := []effect{{ConnID: "1"}, {ConnID: "2"}}
	if got := p.foreseen(everything(smaller, settings.InlineSendMax)); !reflect.DeepEqual(got, want) {
		t.Errorf("preview %+v", got)
	}
	if got := p.Connections(); got[0].InlineSend != 4096 || got[1].InlineSend != 2048 {
		t.Errorf("the preview changed something: %+v", got)
	}
	if got := p.applied(everything(smaller, settings.InlineSendMax)); !reflect.DeepEqual(got, want) {
		t.Errorf("effects %+v", got)
	}
	for _, c := range p.Connections() {
		if c.InlineSend != 1024 || c.Settings.InlineSendMax != 1024 {
			t.Errorf("connection %s sends %d, set to %d", c.ID, c.InlineSend, c.Settings.InlineSendMax)
		}
		if e := p.next(ConnChanged); e.Conn.ID != c.ID || e.Conn.InlineSend != 1024 {
			t.Errorf("event %+v", e.Conn)
		}
	}

	// One connection only, and nothing for the other to be told.
	asked := 0
	larger := func(k ConnKey) *rpcrdma.Settings {
		asked++
		s := *smaller(k)
		if k.ID == "2" {
			s.InlineSendMax = 8192
		}
		return &s
	}
	two := everything(larger, settings.InlineSendMax, settings.RemoteInvalidationUse)
	two.Among.ID = "2"
	got := p.applied(two)
	want = []effect{{ConnID: "2", Outcome: settings.Unsupported, Reason: "inline.send_max: the peer receives at most 2048 bytes; " +
		"remote_invalidation.use: the peer did not offer it"}}
	if !reflect.DeepEqual(got, want) || asked != 1 {
		t.Errorf("effects %+v, settings asked for %d times", got, asked)
	}
	if e := p.next(ConnChanged); e.Conn.ID != "2" || e.Conn.InlineSend != 2048 {
		t.Errorf("event %+v", e.Conn)
	}
	// The same again changes nothing and publishes nothing.
	p.ApplySettings(Update{Resolve: larger}, nil)
	if n := len(p.events.Events()); n != 0 || asked != 3 {
		t.Errorf("%d events for no change, settings asked for %d times", n, asked)
	}
}

// Whatever comes up while settings change ends with the last of them.
func TestNoConnectionMissesAChange(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	const clients, changes = 8, 200
	ctx, cancel := context.WithCancel(t.Context())
	var dialers sync.WaitGroup
	kept := make(chan *rpcrdma.Client, 1<<12)
	for range clients {
		dialers.Go(func() {
			for i := 0; ctx.Err() == nil && i < 20; i++ {
				c, err := p.open(p.judged, addr, rpcrdma.DialConfig{MemoryLimit: 1 << 20})
				if err != nil {
					t.Error(err)
					return
				}
				kept <- c
			}
		})
	}
	for i := range uint32(changes) {
		p.ApplySettings(Update{Resolve: resolver(func(s *rpcrdma.Settings) { s.DDPMinChunk = i })}, nil)
	}
	cancel()
	dialers.Wait()
	close(kept)
	for ups := len(kept); ups > 0; {
		if e := <-p.events.Events(); e.Type == ConnUp {
			ups--
		}
	}
	// One more, so that all are surely registered before they are looked at.
	p.ApplySettings(Update{Resolve: resolver(func(s *rpcrdma.Settings) { s.DDPMinChunk = changes })}, nil)
	for _, c := range p.Connections() {
		if c.Settings.DDPMinChunk != changes {
			t.Errorf("connection %s is left with change %d", c.ID, c.Settings.DDPMinChunk)
		}
	}
	for c := range kept {
		c.Close()
	}
}

func TestSettingsChangeUnderLoad(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var calls [4]int
	for i := range calls {
		c, _ := p.dial(addr, nil)
		load.Go(func() {
			args := make([]byte, 4+3000)
			args[2], args[3] = 3000>>8, 3000&0xff
			for ctx.Err() == nil || calls[i] == 0 {
				call := rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho, Args: args, MaxReply: len(args)}
				if err := c.Call(t.Context(), &call); err != nil || string(call.Reply) != string(args) {
					t.Errorf("call %d: %v, %d bytes", calls[i], err, len(call.Reply))
					return
				}
				calls[i]++
			}
		})
	}
	for i := range 100 {
		effects := p.applied(everything(resolver(func(s *rpcrdma.Settings) {
			s.InlineSendMax = 1024 << (i % 3)
			s.CreditsMax = 1 + uint32(i%64)
		}), settings.InlineSendMax, settings.CreditsMax))
		for _, e := range effects {
			if e.Outcome != settings.Applied {
				t.Fatalf("effect %+v", e)
			}
		}
	}
	cancel()
	load.Wait()
}

// promptLink belongs to a peer that reacts to an announcement at once.
type promptLink struct {
	Link
	info rpcrdma.Info
}

func (l *promptLink) Info() rpcrdma.Info    { return l.info }
func (l *promptLink) Stats() rpcrdma.Stats  { return rpcrdma.Stats{} }
func (l *promptLink) Sizes() rpcrdma.Sizes  { return rpcrdma.Sizes{} }
func (l *promptLink) Done() <-chan struct{} { return nil }
func (l *promptLink) SetSettings(s *rpcrdma.Settings) {
	l.info.Characteristics.Own.ReceiveSize = s.InlineReceiveSize
}

// The facts of an update describe the peer before it, even if the peer reacts at once. So a
// preview returns the same.
func TestEffectsOnPromptPeer(t *testing.T) {
	p := newPlane(t, Config{})
	was := rpcrdma.DefaultSettings()
	was.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics
	link := new(promptLink)
	link.info.Characteristics.Spoken = true
	link.info.Characteristics.Own.ReceiveSize = was.InlineReceiveSize
	c := &conn{
		e:    &endpoint{d: p.Dataplane, name: "a", provider: p.p},
		key:  ConnKey{Listener: "a", ID: "1"},
		link: link, atConnect: &was,
	}
	c.settings.Store(&was)
	p.mu.Lock()
	p.conns.add(c)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conns.remove(c)
	}()
	now := was
	now.InlineReceiveSize *= 2
	resolve := func(ConnKey) *rpcrdma.Settings { return &now }
	u := everything(resolve, settings.InlineReceiveSize)
	foreseen := p.foreseen(u)
	effects := p.applied(u)
	if !slices.Equal(effects, foreseen) || len(effects) != 1 || !strings.Contains(effects[0].Reason, "larger receives are posted") {
		t.Errorf("%+v, foreseen %+v", effects, foreseen)
	}
	if link.info.Characteristics.Own.ReceiveSize != now.InlineReceiveSize {
		t.Error("the link was not told")
	}
}

// TestFactsAllocateNothing: what a preview allocates does not depend on the number of
// connections, though each reports a fact about its peer.
func TestFactsAllocateNothing(t *testing.T) {
	p := newPlane(t, Config{})
	addr := p.listen("a", echo.New())
	p.Start()
	larger := rpcrdma.DefaultSettings()
	larger.InlineSendMax *= 2
	u := everything(func(ConnKey) *rpcrdma.Settings { return &larger }, settings.InlineSendMax)
	preview := func(connections int) float64 {
		for range connections {
			p.dial(addr, nil)
		}
		one := func() {
			n := 0
			p.PreviewSettings(u, func(f *Fact) {
				if f.Peer.Bound == 0 || f.Now != &larger {
					t.Errorf("%+v of %+v", f, f.Peer)
				}
				n++
			})
			if n != len(p.Connections()) {
				t.Errorf("%d facts", n)
			}
		}
		least := testing.AllocsPerRun(1, one)
		for range 20 { // other goroutines allocate too
			least = min(least, testing.AllocsPerRun(1, one))
		}
		return least
	}
	if one, many := preview(1), preview(31); many > one+8 {
		t.Errorf("%v allocations for a connection, %v for 32", one, many)
	}
}
