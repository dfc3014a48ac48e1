package grpcapi

import (
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/controlplane/settings"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// TestEveryFieldIsAKey: the API and the model know the same settings, in the
// same order within a group.
func TestEveryFieldIsAKey(t *testing.T) {
	groups := (*rdmadv1.Settings)(nil).ProtoReflect().Descriptor().Fields()
	n := 0
	for i := range groups.Len() {
		leaves := groups.Get(i).Message().Fields()
		for j := range leaves.Len() {
			if leaves.Get(j) == required {
				continue
			}
			name := string(groups.Get(i).Name()) + "." + string(leaves.Get(j).Name())
			if k, ok := settings.ParseKey(name); !ok {
				t.Errorf("%s is no key", name)
			} else if paths[k].leaf != leaves.Get(j) {
				t.Errorf("%s is kept in %v", name, paths[k].leaf.FullName())
			} else if !leaves.Get(j).HasOptionalKeyword() {
				t.Errorf("%s can't be absent", name)
			}
			n++
		}
	}
	if n != int(settings.NumKeys) {
		t.Errorf("%d fields for %d keys", n, settings.NumKeys)
	}
}

func TestConversionRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v settings.Values
		for k := range settings.NumKeys {
			if !rapid.Bool().Draw(t, "present") {
				continue
			}
			limit := uint32(1 << 20)
			if paths[k].leaf.Kind() != protoreflect.Uint32Kind {
				limit = 1
			}
			if k == settings.ExtensionV2 {
				limit = settings.V2Required
			}
			v.Set(k, rapid.Uint32Range(0, limit).Draw(t, k.String()))
		}
		if got := fromProto(toProto(&v)); got != v {
			t.Fatalf("%v became %v", v, got)
		}
	})
}

// TestRulesAgreeWithTheModel: what the .proto files allow and what the model
// allows is the same, for every key and any value.
func TestRulesAgreeWithTheModel(t *testing.T) {
	defaults := rpcrdma.DefaultSettings()
	base := settings.FromSettings(&defaults)
	state, err := settings.NewState(base, 0)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom([]settings.Key{
			settings.InlineSendMax, settings.InlineReceiveSize, settings.DDPMinChunk, settings.CreditsMax, settings.CreditsMin,
		}).Draw(t, "key")
		value := rapid.OneOf(
			rapid.SampledFrom([]uint32{0, 1, 1023, 1024, 1025, 2048, 262143, 262144, 262145, 1 << 20, 1<<20 + 1}),
			rapid.Uint32Range(0, 2<<20),
		).Draw(t, "value")
		var v settings.Values
		v.Set(k, value)
		if k == settings.CreditsMin { // not about credits.max here
			v.Set(settings.CreditsMax, 1024)
		}
		byRules := protovalidate.Validate(toProto(&v))
		_, byModel := state.Apply(&settings.Change{Set: v})
		if (byRules == nil) != (byModel == nil) {
			t.Fatalf("%s=%d: rules say %v, the model %v", k, value, byRules, byModel)
		}
	})
}
