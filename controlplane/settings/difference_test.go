package settings

import (
	"testing"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// A step says what it changed, with what had no value before or has none
// after, wherever that was.
func TestStepTexts(t *testing.T) {
	values := func(k Key, v uint32) (out Values) {
		out.Set(k, v)
		return out
	}
	step := Step{
		File: &FileDelta{Before: FileLayer{Values: values(live.CreditsMax, 32)}, After: FileLayer{Values: values(live.CreditsMax, 64)}},
		Deltas: []Delta{
			{After: Layer{Values: values(live.RemoteInvalidationUse, 1)}},
			{Scope: Scope{Kind: Listener, Name: "nfs"}, Before: Layer{Values: values(live.DDPMinChunk, 512)}},
		},
	}
	before, after := step.Texts()
	if want := "config:credits.max=32 remote_invalidation.use unset listener/nfs:ddp.min_chunk=512"; before != want {
		t.Errorf("before: %s, want %s", before, want)
	}
	if want := "config:credits.max=64 remote_invalidation.use=on listener/nfs:ddp.min_chunk unset"; after != want {
		t.Errorf("after: %s, want %s", after, want)
	}
	if before, after := new(Step).Texts(); before != "" || after != "" {
		t.Errorf("of nothing: %q, %q", before, after)
	}
}

// TestDifferOfGoneScopes: a scope that a layer has no longer, or has now, differs.
func TestDifferOfGoneScopes(t *testing.T) {
	nfs := Scope{Kind: Listener, Name: "nfs"}
	v, want := set(live.DDPMinChunk, 512), KeySet(0).With(live.DDPMinChunk)
	var noFile FileLayer
	file := FileLayer{Scopes: map[Scope]FileValues{nfs: {Values: v}}}
	var noFleet FleetLayer
	fleet := FleetLayer{Scopes: map[Scope]FleetValues{nfs: {Values: v}}}
	for name, got := range map[string]KeySet{
		"file, gone": noFile.Differ(&file), "file, new": file.Differ(&noFile), "fleet, gone": noFleet.Differ(&fleet), "fleet, new": fleet.Differ(&noFleet),
	} {
		if got != want {
			t.Errorf("%s: %v", name, got.Keys())
		}
	}
}
