package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestLimitFlags: limits set has a flag for each limit that rdmad names, and takes back by that name.
func TestLimitFlags(t *testing.T) {
	var want, got []string
	for f := range spec.Of[spec.Limits]() {
		if f.Path == spec.NoLimit {
			continue
		}
		path := strings.Replace(strings.TrimPrefix(f.API(), "admission."), ".connections", ".max_connections", 1)
		name := flagNames([]string{path})[0]
		if at := unsetFields([]string{name}); at[0] != path {
			t.Errorf("limits unset %s is %s, want %s", name, at[0], path)
		}
		want = append(want, name)
	}
	for _, flag := range limitFlags {
		got = append(got, flag.name)
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("flags %q, want %q", got, want)
	}
}
