package settings

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// available are the keys that a change may set.
var available = []Key{
	live.InlineSendMax, live.InlineReceiveSize, live.DDPMinChunk, live.DDPPlacement, live.RemoteInvalidationAccept, live.RemoteInvalidationUse,
	live.CreditsPolicy, live.CreditsMax, live.CreditsMin, live.CreditsWeight, live.ExtensionV2, live.ExtensionMSGP, live.ExtensionReadReplies, live.ExtensionCCP,
}

func drawScope(t *rapid.T) Scope {
	return scopeOf(t, rapid.SampledFrom([]string{
		"global", "listener/a", "listener/b", "peer/10.0.0.0/8", "peer/10.1.0.0/16", "peer/10.1.2.0/24", "peer/10.1.2.3",
		"peer/2001:db8::/32", "peer/2001:db8::1", "peer/0.0.0.0/0", "connection/1", "connection/2",
	}).Draw(t, "scope"))
}

// targets are all the connections there are.
var targets = []Target{
	{"a", netip.MustParseAddr("10.1.2.3"), "1"},
	{"b", netip.MustParseAddr("2001:db8::1"), "2"},
	{"a", netip.MustParseAddr("10.1.3.3"), "3"},
	{"b", netip.MustParseAddr("10.2.0.1"), "4"},
	{"a", netip.MustParseAddr("192.0.2.1"), "5"},
	{"b", netip.MustParseAddr("::ffff:10.1.2.3"), "6"},
	{"b", netip.MustParseAddr("2001:db9::1"), "7"},
}

// drawChange draws changes of which some are refused.
func drawChange(t *rapid.T) *Change {
	c := &Change{Scope: drawScope(t)}
	if c.Scope.Kind == Connection {
		c.Target = targets[c.Scope.Name[0]-'1']
	}
	for range rapid.IntRange(0, 3).Draw(t, "keys") {
		k := rapid.SampledFrom(available).Draw(t, "key")
		if rapid.Bool().Draw(t, "unset") {
			c.Unset = c.Unset.With(k)
			continue
		}
		switch k {
		case live.InlineSendMax, live.InlineReceiveSize:
			c.Set.Set(k, rapid.SampledFrom([]uint32{0, 1024, 2048, 3000, 262144, 300000}).Draw(t, "size"))
		case live.DDPMinChunk:
			c.Set.Set(k, rapid.Uint32Range(0, 2<<20).Draw(t, "chunk"))
		case live.CreditsMax, live.CreditsMin, live.CreditsWeight:
			c.Set.Set(k, rapid.Uint32Range(0, 100).Draw(t, "credits"))
		default:
			c.Set.Set(k, rapid.Uint32Range(0, 3).Draw(t, "choice"))
		}
	}
	return c
}

// model is the same settings kept without any cleverness.
type model struct {
	base   Values
	file   FileLayer
	layers map[Scope]Values
}

// resolve asks every scope, from the widest to the narrowest.
func (m *model) resolve(t Target) Values {
	v := m.base
	v.Overlay(&m.file.Values)
	for bits := -1; bits <= 128+3; bits++ {
		for scope, file := range m.file.Scopes {
			if rank(scope) == bits && scope.Covers(t) {
				v.Overlay(&file.Values)
			}
		}
		for scope, values := range m.layers {
			if rank(scope) == bits && scope.Covers(t) {
				v.Overlay(&values)
			}
		}
	}
	return v
}

// rank orders scopes that can cover the same connection.
func rank(s Scope) int {
	switch s.Kind {
	case Global:
		return -1
	case Listener:
		return 0
	case Peer:
		return 1 + s.Prefix.Bits()
	}
	return 1 + 128 + 1
}

// change makes a change without asking whether it may be made.
func (m *model) change(c *Change) {
	v := m.layers[c.Scope]
	for _, k := range c.Unset.Keys() {
		v.Delete(k)
	}
	v.Overlay(&c.Set)
	m.layers[c.Scope] = v
}

// allowed says whether every connection has what it may have.
func allowed(v *Values) bool {
	for _, k := range available {
		if k.Row().OutOfRange(v.Value(k)) != "" {
			return false
		}
	}
	return v.Value(live.CreditsMin) <= v.Value(live.CreditsMax)
}

// TestStateFollowsModel makes random changes. Those that are taken do what
// the model does; those that are refused change nothing; and what is in force
// anywhere is always allowed.
func TestStateFollowsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := live.Default()
		m := &model{base: live.Of(&d), layers: map[Scope]Values{}}
		s, err := NewState(m.base, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			c, before := drawChange(t), s.Revision()
			change := func() { m.change(c) }
			next, err := s.Apply(c)
			if rapid.IntRange(0, 4).Draw(t, "kind") == 0 {
				f := drawFile(t)
				change = func() { m.file = f }
				next, err = s.WithFile(f)
			}
			if err == nil {
				change()
				s = next
				before++
			}
			if s.Revision() != before {
				t.Fatalf("revision %d after %+v (%v), want %d", s.Revision(), c, err, before)
			}
			for _, target := range targets {
				got, want := s.Resolve(target), m.resolve(target)
				if got != want {
					t.Fatalf("%v has %v, want %v", target, got, want)
				}
				if !allowed(&got) {
					t.Fatalf("%v has %v, which is not allowed", target, got)
				}
			}
		}
	})
}

// TestApplyLeavesTheOldStateAlone: whoever still reads the old state sees
// the old values, whatever becomes of the change.
func TestApplyLeavesTheOldStateAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := initial(t)
		for range 5 {
			if next, err := s.Apply(drawChange(t)); err == nil {
				s = next
			}
		}
		before := make([]Effective, len(targets))
		for i, target := range targets {
			before[i] = s.At(Scope{Kind: Connection}, target)
		}
		for range 5 {
			s.Apply(drawChange(t))
		}
		for i, target := range targets {
			if s.At(Scope{Kind: Connection}, target) != before[i] {
				t.Fatalf("%v changed under a reader", target)
			}
		}
	})
}
