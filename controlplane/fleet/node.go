package fleet

import "time"

// Identity describes a node. The node writes it when it joins.
type Identity struct {
	Labels  Labels
	Version string // of its rdmad
	Control string // address of its control plane
	Since   time.Time
}

// Report is a node's report about its work.
type Report struct {
	Assigned   int64  // revision of the newest assignment that it has read; 0 for none
	Applied    int64  // of the assignment in force
	Refused    string // why the newest assignment is not in force; "" if it is
	Outcomes   Outcomes
	Pins       []string
	Conditions []Condition // that are not OK
	Load       Load
	Time       time.Time
}

// IDs are those of the conditions.
func (r *Report) IDs() (ids []string) {
	for i := range r.Conditions {
		ids = append(ids, r.Conditions[i].ID())
	}
	return ids
}

// Load is the work of a node over the last interval.
type Load struct {
	Calls, Errors float64       // per second
	P99           time.Duration // of the services; 0 without calls
	Connections   uint32        // that are up
}

// Outcomes counts connections by the outcome of the assignment in force.
type Outcomes struct{ Applied, PendingReconnect, Unsupported uint32 }

// Condition is a condition of a node, as text.
type Condition struct {
	Kind, Name, Status, Reason, Message, Remedy string
	Since                                       time.Time
}

// Node is everything that etcd has of a node.
type Node struct {
	Name string
	Identity
	Up       bool // its presence is there
	Assigned Assigned
	Report   *Report // nil if there is none
}

// Known reports whether etcd has a key of the node.
func (n *Node) Known() bool { return n.Up || n.Report != nil || n.Assigned.At != 0 }

// Healthy reports whether all conditions of the last report are OK.
func (n *Node) Healthy() bool { return n.Report != nil && len(n.Report.Conditions) == 0 }

// Drift reports whether the assignment is not in force, or operators of the node set other
// values.
func (n *Node) Drift() bool {
	if n.Report == nil {
		return n.Assigned.At != 0
	}
	return n.Report.Applied != n.Assigned.At || len(n.Report.Pins) > 0
}
