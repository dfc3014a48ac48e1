// Package conditions is the model of health in rdmad. No other code decides what is healthy.
//
// Everything that can fail has a Condition: a listener, an export, a certificate. Its Reason
// is a row of the catalogue (Reasons), which fixes the status and the remedy. Everything that
// shows health reads a Registry: the gRPC API, rdmactl, /healthz, /readyz, the gRPC health
// service, the metrics and the service manager.
//
// A caller's duties:
//
//   - report changes to the Registry with Set and Remove, or add a source with Ask, which
//     is called at each read; a source may wait only for short locks;
//   - leave checks that may take long, such as those of files and peers, to a Prober.
package conditions

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Status is the health of a thing.
type Status uint8

// The statuses, from good to bad.
const (
	OK       Status = iota
	Unknown         // not checked yet
	Degraded        // it works, but less well, or not for long
	Failed          // it does not do its work
)

// Statuses are all statuses, from good to bad.
var Statuses = []Status{OK, Unknown, Degraded, Failed}

// String returns the status as the API, rdmactl and the metrics show it.
func (s Status) String() string { return [...]string{"OK", "UNKNOWN", "DEGRADED", "FAILED"}[s] }

// Bounds of a registry, so that no file or peer can fill the memory.
const (
	MaxConditions = 8192
	maxMessage    = 1024 // bytes
)

// Finding is the current state of one thing.
type Finding struct {
	Name    string
	Reason  *Reason
	Message string // the details, such as an error; may be empty
}

// Condition is the state of one thing, and since when.
type Condition struct {
	Finding
	Since time.Time // when the reason became this one
}

// Kind returns the kind of the thing.
func (c *Condition) Kind() Kind { return c.Reason.Kind }

// Status returns the status of the reason.
func (c *Condition) Status() Status { return c.Reason.Status }

// Remedy returns what to do, or "" when there is nothing to do.
func (c *Condition) Remedy() string { return strings.ReplaceAll(c.Reason.Remedy, "NAME", c.Name) }

// String returns one line: the thing, its status and the reason.
func (c *Condition) String() string {
	text := string(c.Kind()) + "/" + c.Name + " " + c.Status().String() + " " + c.Reason.Name
	if c.Message != "" {
		text += ": " + c.Message
	}
	return text
}

// List is a list of conditions, ordered by kind and name.
type List []Condition

func (l List) sort() {
	slices.SortFunc(l, func(a, b Condition) int { return compare(key{a.Kind(), a.Name}, key{b.Kind(), b.Name}) })
}

func compare(a, b key) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name)) }

// NotOK returns the conditions that are not OK, the worst first.
func (l List) NotOK() List {
	out := slices.DeleteFunc(slices.Clone(l), func(c Condition) bool { return c.Status() == OK })
	slices.SortStableFunc(out, func(a, b Condition) int { return cmp.Compare(b.Status(), a.Status()) })
	return out
}

// Failed reports whether a condition has the status Failed.
func (l List) Failed() bool {
	return slices.ContainsFunc(l, func(c Condition) bool { return c.Status() == Failed })
}

// Find returns the condition of one thing, or nil when there is none. The list must be
// ordered by kind and name.
func (l List) Find(k Kind, name string) *Condition {
	i, ok := slices.BinarySearchFunc(l, key{k, name}, func(c Condition, want key) int { return compare(key{c.Kind(), c.Name}, want) })
	if !ok {
		return nil
	}
	return &l[i]
}

// Reachable reports whether clients can be sent here: there is no listener, or at least one
// listener is OK.
func (l List) Reachable() bool {
	listeners := slices.DeleteFunc(slices.Clone(l), func(c Condition) bool { return c.Kind() != Listener })
	return len(listeners) == 0 || slices.ContainsFunc(listeners, func(c Condition) bool { return c.Status() == OK })
}
