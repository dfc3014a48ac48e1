package main

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connector"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestRangesOfSpecifications: ranges are those of the packages whose protocol
// or arithmetic gives them.
func TestRangesOfSpecifications(t *testing.T) {
	ranges := map[string][2]string{
		"connector.max_reply":     {"1KiB", spec.Size(connector.MaxRecord).String()},
		"connector.limits.memory": {spec.Size(connector.MinMemory).String(), spec.Size(dataplane.MaxMemory).String()},
	}
	check := func(prefix string, fields func(func(spec.Field) bool)) {
		for f := range fields {
			want, ok := ranges[prefix+f.Path]
			if low, high := f.Range(); ok && want != [2]string{low, high} {
				t.Errorf("%s: the range is %s..%s, not %s", f.Path, low, high, want)
			}
			delete(ranges, prefix+f.Path)
		}
	}
	check("connector.", spec.Of[spec.Connector]())
	if len(ranges) > 0 {
		t.Errorf("no such fields: %v", ranges)
	}
}
