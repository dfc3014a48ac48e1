package referee

import (
	"slices"
	"testing"
)

// planted is a rule and a conversation. If bad, the conversation breaks this
// rule. Otherwise it breaks none.
type planted struct {
	rule string
	name string // the case, if the rule has several
	by   Side
	play func(b *bed, bad bool)
}

// pick returns yes if bad, else no.
func pick[T any](bad bool, yes, no T) T {
	if bad {
		return yes
	}
	return no
}

// exchange plays a call and its reply.
func (b *bed) exchange(xid int) {
	b.send(Client, callOf(xid, 32))
	b.send(Server, replyOf(xid, 32))
}

var planted1 = slices.Concat(plantedHeaders, plantedCalls, plantedChunks, plantedReduced, plantedMemory, plantedUpper)

func TestPlanted(t *testing.T) { testPlanted(t, rules1, planted1) }

// testPlanted plays each conversation with and without the violation. It
// requires one conversation for each rule.
func testPlanted(t *testing.T, rules []Rule, list []planted) {
	for _, p := range list {
		name := p.rule
		if p.name != "" {
			name += "/" + p.name
		}
		t.Run(name, func(t *testing.T) {
			b := connected(t)
			p.play(b, true)
			if got := b.rules(); !slices.Equal(got, []string{p.rule}) {
				t.Errorf("broken: got %v, want %s: %v", got, p.rule, b.got)
			}
			for _, v := range b.got {
				if v.By != p.by || v.Section == "" || v.Message == "" || v.Frame == 0 && p.rule != "private.flags" {
					t.Errorf("broken: %+v, want it by the %v", v, p.by)
				}
			}
			b = connected(t)
			p.play(b, false)
			if len(b.got) > 0 {
				t.Errorf("clean: %v", b.got)
			}
			if b.r.GivenUp() != "" {
				t.Error(b.r.GivenUp())
			}
		})
	}
	for _, r := range rules {
		if !slices.ContainsFunc(list, func(p planted) bool { return p.rule == r.Name }) {
			t.Errorf("nothing is planted for rule %s", r.Name)
		}
	}
}

// TestRules checks that rules have unique names, sections and texts.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.Name] || r.Name == "" || r.Section == "" || r.Text == "" {
			t.Errorf("rule %+v", r)
		}
		seen[r.Name] = true
	}
}
