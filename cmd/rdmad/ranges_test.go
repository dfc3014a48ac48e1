package main

import (
	"reflect"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connector"
	"github.com/rdmad/rdmad/dataplane/forward"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestRangesOfSpecifications: ranges and defaults are those of the packages that
// use the values.
func TestRangesOfSpecifications(t *testing.T) {
	f, c := spec.Filled(spec.Forward{}), spec.Filled(spec.Connector{})
	for _, one := range []struct {
		what      string
		got, want int64
	}{
		{"forward's dial_timeout", int64(f.DialTimeout), int64(forward.DefaultDialTimeout)},
		{"forward's call_timeout", int64(f.CallTimeout), int64(forward.DefaultCallTimeout)},
		{"forward's callback_timeout", int64(f.CallbackTimeout), int64(forward.DefaultCallbackTimeout)},
		{"forward's max_record", int64(f.MaxRecord), forward.DefaultMaxRecord},
		{"connector's dial_timeout", int64(c.DialTimeout), int64(connector.DefaultDialTimeout)},
		{"connector's callback_timeout", int64(c.CallbackTimeout), int64(connector.DefaultCallbackTimeout)},
		{"connector's max_calls", int64(c.MaxCalls), connector.DefaultMaxCalls},
		{"connector's max_reply", int64(c.MaxReply), connector.DefaultMaxReply},
		{"connector's memory", int64(c.Limits.Memory), connector.DefaultMemory},
	} {
		if one.got != one.want {
			t.Errorf("%s: the default is %d, not %d", one.what, one.got, one.want)
		}
	}
	ranges := map[string][2]string{
		"dial_timeout":            {forward.MinDialTimeout.String(), shortTime(forward.MaxDialTimeout)},
		"call_timeout":            {shortTime(forward.MinCallTimeout), shortTime(forward.MaxCallTimeout)},
		"callback_timeout":        {forward.MinCallbackTimeout.String(), shortTime(forward.MaxCallbackTimeout)},
		"max_record":              {spec.Size(forward.MinMaxRecord).String(), spec.Size(forward.MaxMaxRecord).String()},
		"connector.max_reply":     {"1KiB", spec.Size(connector.MaxRecord).String()},
		"connector.limits.memory": {spec.Size(connector.MinMemory).String(), spec.Size(dataplane.MaxMemory).String()},
		"connector.limits.idle":   {"1s", shortTime(dataplane.MaxIdle)},
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
	check("", spec.Of[spec.Forward]())
	check("connector.", spec.Of[spec.Connector]())
	if len(ranges) > 0 {
		t.Errorf("no such fields: %v", ranges)
	}
}

// shortTime is a time as package spec writes it.
func shortTime(d time.Duration) string { return spec.Text(reflect.ValueOf(d)) }
