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
)

func everything(keys Keys) ChangedFunc { return func(ConnKey) (Keys, string) { return keys, "" } }

func TestOutcomes(t *testing.T) {
	at := rpcrdma.DefaultSettings()
	kernel := limits{bound: 4096, receive: 4096, invalidation: true}
	plain := limits{bound: 4096, receive: 4096}
	for _, c := range []struct {
		name   string
		keys   Keys
		change func(*rpcrdma.Settings)
		at     func(*rpcrdma.Settings)
		peer   limits
		want   Outcome
		reason string
	}{
		{name: "send_max", keys: KeyInlineSendMax, change: func(s *rpcrdma.Settings) { s.InlineSendMax = 1024 }, want: Applied},
		{name: "send_max over the peer's", keys: KeyInlineSendMax, change: func(s *rpcrdma.Settings) { s.InlineSendMax = 8192 },
			peer: limits{bound: 2048, receive: 2048}, want: Applied, reason: "inline.send_max: the peer receives at most 2048 bytes"},
		{name: "send_max under the peer's", keys: KeyInlineSendMax, change: func(s *rpcrdma.Settings) { s.InlineSendMax = 1024 },
			peer: limits{bound: 2048, receive: 2048}, want: Applied},
		{name: "send_max over what was told", keys: KeyInlineSendMax, change: func(s *rpcrdma.Settings) { s.InlineSendMax = 8192 },
			peer: limits{bound: 4096, receive: 16384}, want: PendingReconnect, reason: "inline.send_max: 4096 bytes were announced to the peer at connect"},
		{name: "send_max up to what was told", keys: KeyInlineSendMax, peer: limits{bound: 4096, receive: 16384}, want: Applied},
		{name: "receive_size", keys: KeyInlineReceiveSize, change: func(s *rpcrdma.Settings) { s.InlineReceiveSize = 8192 },
			want: PendingReconnect, reason: "inline.receive_size: version 1 fixes it at connect, 4096 bytes here"},
		{name: "receive_size as it is", keys: KeyInlineReceiveSize, want: Applied},
		{name: "receive_size not changed", keys: KeyCreditsMax, change: func(s *rpcrdma.Settings) { s.InlineReceiveSize = 8192 }, want: Applied},
		{name: "accept", keys: KeyRemoteInvalidationAccept, change: func(s *rpcrdma.Settings) { s.RemoteInvalidationAccept = false },
			want: PendingReconnect, reason: "remote_invalidation.accept: version 1 fixes it at connect, on here"},
		{name: "use", keys: KeyRemoteInvalidationUse, want: Applied},
		{name: "use, not offered", keys: KeyRemoteInvalidationUse, peer: plain,
			want: Unsupported, reason: "remote_invalidation.use: the peer did not offer it"},
		{name: "use, not accepted", keys: KeyRemoteInvalidationUse, peer: plain,
			at:   func(s *rpcrdma.Settings) { s.RemoteInvalidationAccept = false },
			want: Unsupported, reason: "remote_invalidation.use: remote_invalidation.accept was off at connect"},
		{name: "use, not possible", keys: KeyRemoteInvalidationUse, peer: limits{bound: 4096, device: "old0", noSendInvalidate: true},
			want: Unsupported, reason: "remote_invalidation.use: device old0 has no Send With Invalidate"},
		{name: "accept without windows", keys: KeyRemoteInvalidationAccept, peer: limits{bound: 4096, device: "siw0", noWindows: true}, want: Applied},
		{name: "use off, not offered", keys: KeyRemoteInvalidationUse, peer: plain,
			change: func(s *rpcrdma.Settings) { s.RemoteInvalidationUse = false }, want: Applied},
		{name: "weight, policy fixed", keys: KeyCreditsWeight,
			want: Applied, reason: "credits.weight: counts while credits.policy is adaptive; it is fixed"},
		{name: "weight, policy adaptive", keys: KeyCreditsWeight,
			change: func(s *rpcrdma.Settings) { s.CreditsPolicy = rpcrdma.CreditsAdaptive }, want: Applied},
		{name: "the rest", keys: KeyDDPMinChunk | KeyCreditsMax | KeyCreditsMin | KeyCreditsPolicy, want: Applied},
		{name: "msgp on", keys: KeyExtensionMSGP, change: func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtMSGP },
			want: Applied, reason: "extensions.msgp: the peer has sent no RDMA_MSGP; one that takes none fails on padded replies"},
		{name: "msgp on, peer pads", keys: KeyExtensionMSGP, change: func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtMSGP },
			peer: limits{bound: 4096, receive: 4096, pads: true}, want: Applied},
		{name: "msgp off", keys: KeyExtensionMSGP, peer: limits{bound: 4096, receive: 4096, padTaken: true},
			want: Applied, reason: "extensions.msgp: none is sent, but those of the peer are taken until it reconnects"},
		{name: "msgp as it was", keys: KeyExtensionMSGP, want: Applied},
		{name: "read_replies on", keys: KeyExtensionReadReplies, change: func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtReadReplies },
			want: Applied, reason: "extensions.read_replies: a peer that does not read such replies fails on them, as it does on the error without"},
		{name: "read_replies off", keys: KeyExtensionReadReplies,
			want: Applied, reason: "extensions.read_replies: replies exposed already may still be read"},
		{name: "ccp on", keys: KeyExtensionCCP, change: func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtCCP },
			want: PendingReconnect, reason: "extensions.ccp: a client asks when it connects"},
		{name: "ccp on again", keys: KeyExtensionCCP, change: func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtCCP },
			peer: limits{bound: 4096, receive: 4096, configured: true}, want: Applied},
		{name: "ccp off", keys: KeyExtensionCCP, peer: limits{bound: 4096, receive: 4096, configured: true},
			want: PendingReconnect, reason: "extensions.ccp: what the peer told holds until it reconnects"},
		{name: "backchannel on", keys: KeyExtensionBackchannel, change: func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtBackchannel },
			want: Applied, reason: "extensions.backchannel: calls to the client wait until the upper layer opens the back channel"},
		{name: "backchannel on, open", keys: KeyExtensionBackchannel, change: func(s *rpcrdma.Settings) { s.Extensions = rpcrdma.ExtBackchannel },
			peer: limits{bound: 4096, receive: 4096, callable: true}, want: Applied},
		{name: "backchannel on, no credits", keys: KeyExtensionBackchannel | KeyCreditsBackchannel,
			change: func(s *rpcrdma.Settings) { s.Extensions, s.CreditsBackchannel = rpcrdma.ExtBackchannel, 0 },
			want:   Applied, reason: "extensions.backchannel: no calls to the client while credits.backchannel is 0"},
		{name: "backchannel off", keys: KeyExtensionBackchannel, change: func(s *rpcrdma.Settings) { s.Extensions = 0 }, peer: limits{bound: 4096, receive: 4096, callable: true},
			want: Applied, reason: "extensions.backchannel: calls to the client that are in flight are finished"},
		{name: "backchannel credits, off", keys: KeyCreditsBackchannel, change: func(s *rpcrdma.Settings) { s.Extensions = 0 },
			want: Applied, reason: "credits.backchannel: counts while extensions.backchannel is on; it is off"},
		{name: "folded", keys: KeyInlineSendMax | KeyInlineReceiveSize | KeyRemoteInvalidationUse,
			change: func(s *rpcrdma.Settings) { s.InlineReceiveSize = 1024 }, peer: plain,
			want: Unsupported, reason: "inline.receive_size: version 1 fixes it at connect, 4096 bytes here; " +
				"remote_invalidation.use: the peer did not offer it"},
	} {
		now, then := at, at
		if c.peer == (limits{}) {
			c.peer = kernel
		}
		if c.change != nil {
			c.change(&now)
		}
		if c.at != nil {
			c.at(&then)
		}
		got, reason := outcome(c.keys, &now, &then, c.peer)
		if got != c.want || reason != c.reason {
			t.Errorf("%s: %d %q, want %d %q", c.name, got, reason, c.want, c.reason)
		}
	}
}

func TestKeyNames(t *testing.T) {
	all := KeyDDPPlacement<<1 - 1
	names := strings.Split(all.String(), ", ")
	want := 9 - 1 // extensions, which one field holds
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rpcrdma.Settings]()) {
		if f.IsExported() {
			want++
		}
	}
	if len(names) != want {
		t.Errorf("%d names for %d settings", len(names), want)
	}
	if got := (KeyInlineSendMax | KeyRemoteInvalidationUse | KeyCreditsMax).String(); got != "inline.send_max, remote_invalidation.use, credits.max" {
		t.Errorf("named %s", got)
	}
	if KeyInlineSendMax.Has(KeyInlineSendMax | KeyCreditsMax) {
		t.Error("one key has two")
	}
}

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
	want := []Effect{{ConnID: "1"}, {ConnID: "2"}}
	if got := p.PreviewSettings(smaller, everything(KeyInlineSendMax)); !reflect.DeepEqual(got, want) {
		t.Errorf("preview %+v", got)
	}
	if got := p.Connections(); got[0].InlineSend != 4096 || got[1].InlineSend != 2048 {
		t.Errorf("the preview changed something: %+v", got)
	}
	if got := p.ApplySettings(smaller, everything(KeyInlineSendMax)); !reflect.DeepEqual(got, want) {
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
	got := p.ApplySettings(larger, func(k ConnKey) (Keys, string) {
		if k.ID == "2" {
			return KeyInlineSendMax | KeyRemoteInvalidationUse, "noted"
		}
		return 0, "of no connection that is touched"
	})
	want = []Effect{{ConnID: "2", Outcome: Unsupported, Reason: "inline.send_max: the peer receives at most 2048 bytes; " +
		"remote_invalidation.use: the peer did not offer it; noted"}}
	if !reflect.DeepEqual(got, want) || asked != 1 {
		t.Errorf("effects %+v, settings asked for %d times", got, asked)
	}
	if e := p.next(ConnChanged); e.Conn.ID != "2" || e.Conn.InlineSend != 2048 {
		t.Errorf("event %+v", e.Conn)
	}
	// The same again changes nothing and publishes nothing.
	p.ApplySettings(larger, nil)
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
				c, err := rpcrdma.Dial(t.Context(), p.judged, addr, rpcrdma.DialConfig{MemoryLimit: 1 << 20})
				if err != nil {
					t.Error(err)
					return
				}
				kept <- c
			}
		})
	}
	for i := range uint32(changes) {
		p.ApplySettings(resolver(func(s *rpcrdma.Settings) { s.DDPMinChunk = i }), nil)
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
	p.ApplySettings(resolver(func(s *rpcrdma.Settings) { s.DDPMinChunk = changes }), nil)
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
		effects := p.ApplySettings(resolver(func(s *rpcrdma.Settings) {
			s.InlineSendMax = 1024 << (i % 3)
			s.CreditsMax = 1 + uint32(i%64)
		}), everything(KeyInlineSendMax|KeyCreditsMax))
		for _, e := range effects {
			if e.Outcome != Applied {
				t.Fatalf("effect %+v", e)
			}
		}
	}
	cancel()
	load.Wait()
}

// promptLink is of a peer that has done what it is told before anybody looks.
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

// What an update did is told as seen from before it, however soon it is done;
// so a preview of it says the same.
func TestEffectsOnPromptPeer(t *testing.T) {
	p := newPlane(t, Config{})
	was := rpcrdma.DefaultSettings()
	was.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics
	link := new(promptLink)
	link.info.Characteristics.Spoken = true
	link.info.Characteristics.Own.ReceiveSize = was.InlineReceiveSize
	c := &conn{
		l:    &listener{d: p.Dataplane, cfg: ListenerConfig{Name: "a", Provider: p.p}},
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
	foreseen := p.PreviewSettings(resolve, everything(KeyInlineReceiveSize))
	effects := p.ApplySettings(resolve, everything(KeyInlineReceiveSize))
	if !slices.Equal(effects, foreseen) || len(effects) != 1 || !strings.Contains(effects[0].Reason, "larger receives are posted") {
		t.Errorf("%+v, foreseen %+v", effects, foreseen)
	}
	if link.info.Characteristics.Own.ReceiveSize != now.InlineReceiveSize {
		t.Error("the link was not told")
	}
}
