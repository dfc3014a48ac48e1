package connector

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
)

// Spec is a connector as the configuration or an operator wants it.
type Spec = manager.ConnectorSpec

// What the values of a Spec may be, where they are given.
const (
	MinTime     = 100 * time.Millisecond // of DialTimeout and CallbackTimeout
	MaxTime     = 10 * time.Minute
	MostCalls   = 4096 // of MaxCalls
	MinMaxReply = 1024 // bytes
)

// check checks what an operator wants.
func check(spec *Spec, providers []string) error {
	for _, p := range []struct{ field, text string }{
		{"name", manager.NameProblem(spec.Name)},
		{"listen", manager.AddressProblem(spec.Listen)},
		{"target", targetProblem(spec.Target)},
	} {
		if p.text != "" {
			return &manager.InvalidError{Field: p.field, Text: p.text}
		}
	}
	if !slices.Contains(providers, spec.Provider) {
		return &manager.UnknownError{What: "provider", Name: spec.Provider, Known: providers}
	}
	for _, v := range []struct {
		field            string
		value, low, high int64
		text             func(int64) string
	}{
		{"dial_timeout", int64(spec.DialTimeout), int64(MinTime), int64(MaxTime), timeText},
		{"callback_timeout", int64(spec.CallbackTimeout), int64(MinTime), int64(MaxTime), timeText},
		{"max_calls", int64(spec.MaxCalls), 1, MostCalls, numberText},
		{"max_reply", int64(spec.MaxReply), MinMaxReply, MaxRecord, numberText},
		{"max_memory", spec.Memory, MinMemory, dataplane.MaxMemory, numberText},
	} {
		if v.value != 0 && (v.value < v.low || v.value > v.high) {
			return &manager.InvalidError{Field: v.field, Text: fmt.Sprintf("%s is out of range %s..%s", v.text(v.value), v.text(v.low), v.text(v.high))}
		}
	}
	return nil
}

func timeText(n int64) string   { return time.Duration(n).String() }
func numberText(n int64) string { return fmt.Sprint(n) }

// targetProblem says what is wrong with a target; "" for nothing.
func targetProblem(v string) string {
	if text := manager.AddressProblem(v); text != "" {
		return text
	}
	if strings.HasSuffix(v, ":0") {
		return "nobody listens on port 0; NFS over RDMA is on port 20049"
	}
	return ""
}

// sameBinding says whether a connector can become another with clients.
func sameBinding(a, b Spec) bool {
	a.Limits, a.Access = b.Limits, b.Access
	return same(a, b)
}
