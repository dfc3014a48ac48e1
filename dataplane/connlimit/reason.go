package connlimit

import "fmt"

// Reason is why a connection was refused or evicted.
type Reason uint8

// The reasons.
const (
	Total    Reason = iota // all places are taken
	PerKey                 // all places of its key are taken
	Kept                   // all places are taken, except those reserved for a class
	Idle                   // it was idle for too long
	HalfOpen               // it has done nothing since it was accepted
	Reasons                // number of reasons
)

var reasonNames = [Reasons]string{"connections", "connections_per_peer", "reserved", "idle", "half_open"}

// String returns the reason's label value in metrics.
func (r Reason) String() string { return reasonNames[r] }

// Counts are connections by Reason.
type Counts [Reasons]uint64

// RefusedError means that there is no place for a newcomer.
type RefusedError struct {
	Reason Reason
	Table  string // the table's Name
	Key    Key
	Limit  int
	Own    int // places that the newcomer's owner has
	// Weight means that Limits.Weight allows no more than the Limit connections that there are.
	Weight bool
	// Leaving means that evicted connections have not left yet.
	Leaving bool
}

func (e *RefusedError) Error() string {
	of := ""
	if e.Table != "" {
		of = " of " + e.Table
	}
	switch {
	case e.Leaving:
		return fmt.Sprintf("the places%s are being freed: try again", of)
	case e.Reason == PerKey:
		return fmt.Sprintf("all %d connections%s allowed to %s are in use", e.Limit, of, e.Key)
	case e.Reason == Kept:
		return fmt.Sprintf("all %d connections%s that are not kept for admins are in use", e.Limit, of)
	}
	return fmt.Sprintf("all %d connections%s are in use", e.Limit, of)
}

// Eviction is why a connection lost its place.
type Eviction struct {
	Reason Reason
	Table  string // the table's Name
	// For is the newcomer's key and By the newcomer, if one takes the place.
	For Key
	By  Holder
}

// Text returns the reason in words.
func (e Eviction) Text() string {
	of := ""
	if e.Table != "" {
		of = " of " + e.Table
	}
	switch e.Reason {
	case Idle:
		return "idle for too long"
	case HalfOpen:
		return "nothing came since it was accepted"
	case PerKey:
		return fmt.Sprintf("idle, and its place%s was needed for another connection of the same peer", of)
	}
	return fmt.Sprintf("idle, and its place%s was needed for %s", of, e.For)
}
