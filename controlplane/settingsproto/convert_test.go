package settingsproto

import (
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/settings/settingstest"
)

// TestEveryFieldIsAKey: the API and the catalogue have the same settings, in
// the same order within a group, and the same choices.
func TestEveryFieldIsAKey(t *testing.T) {
	var fields []string
	further := make(map[protoreflect.FieldDescriptor]bool)
	for _, p := range places {
		for _, f := range p.further {
			further[f] = true
		}
	}
	groups := places[0].group.ContainingMessage().Fields()
	for i := range groups.Len() {
		leaves := groups.Get(i).Message().Fields()
		for j := range leaves.Len() {
			leaf := leaves.Get(j)
			if further[leaf] {
				continue
			}
			fields = append(fields, string(groups.Get(i).Name())+"."+string(leaf.Name()))
			if !leaf.HasOptionalKeyword() {
				t.Errorf("%s can't be absent", leaf.FullName())
			}
		}
	}
	var keys []string
	for k := range settings.NumKeys {
		keys = append(keys, k.String())
		checkKind(t, k)
	}
	slices.Sort(fields)
	slices.Sort(keys)
	if !slices.Equal(fields, keys) {
		t.Errorf("the API has %v\nthe catalogue has %v", fields, keys)
	}
}

// checkKind holds a setting's field against its row.
func checkKind(t *testing.T, k settings.Key) {
	leaf, texts := places[k].leaf, k.Row().Texts()
	switch leaf.Kind() {
	case protoreflect.BoolKind:
		if !slices.Equal(texts[:2], []string{"off", "on"}) || slices.Contains(places[k].further, nil) {
			t.Errorf("%s takes %v", k, texts)
		}
	case protoreflect.EnumKind:
		var names []string
		for i := 1; i < leaf.Enum().Values().Len(); i++ { // 0 is "not given"
			value := leaf.Enum().Values().Get(i)
			names = append(names, strings.ToLower(string(value.Name())))
			if int(value.Number()) != i {
				t.Errorf("%s has number %d", value.FullName(), value.Number())
			}
		}
		if !slices.Equal(names, texts) {
			t.Errorf("%s takes %v, its field %v", k, texts, names)
		}
	default:
		if leaf.Kind() != protoreflect.Uint32Kind || texts != nil {
			t.Errorf("%s is a %v", k, leaf.Kind())
		}
	}
}

func TestConversionRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v settings.Values
		for k := range settings.NumKeys {
			if rapid.Bool().Draw(t, "present") {
				v.Set(k, rapid.SampledFrom(settingstest.Samples(k)).Draw(t, k.String()))
			}
		}
		if got := Values(Message(&v)); got != v {
			t.Fatalf("%v became %v", v, got)
		}
	})
}

// TestRulesAgreeWithTheCatalogue: what the .proto files allow and what the
// catalogue allows is the same, for every key and any value.
func TestRulesAgreeWithTheCatalogue(t *testing.T) {
	for k := range settings.NumKeys {
		if k.Row().Texts() != nil {
			continue // the type allows no others
		}
		r := k.Row()
		rapid.Check(t, func(t *rapid.T) {
			value := rapid.OneOf(
				rapid.SampledFrom([]uint32{0, 1, r.Min - 1, r.Min, r.Min + 1, 2048, r.Max - 1, r.Max, r.Max + 1}),
				rapid.Uint32Range(0, 2<<20),
			).Draw(t, "value")
			var v settings.Values
			v.Set(k, value)
			byRules, byRow := protovalidate.Validate(Message(&v)), v.Check()
			if (byRules == nil) != (byRow == nil) {
				t.Fatalf("%s=%d: rules say %v, the catalogue %v", k, value, byRules, byRow)
			}
		})
	}
}
