package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	fleetConnected = define(isGauge, "rdmad_fleet_connected",
		"1 while this rdmad is connected to the fleet's etcd, else 0.")
	fleetAssigned = define(isGauge, "rdmad_fleet_assigned_revision",
		"Revision of the newest assignment that this rdmad has read; 0 for none.")
	fleetApplied = define(isGauge, "rdmad_fleet_applied_revision",
		"Revision of the assignment in force; 0 for none.")
	fleetDrift = define(isGauge, "rdmad_fleet_drift",
		"1 if the newest assignment is not in force, or if operators set other values than the policies, else 0.")
	fleetLag = define(isGauge, "rdmad_fleet_lag_seconds",
		"Time for which the newest assignment has not been in force; 0 if it is.")
	fleetErrors = define(isCounter, "rdmad_fleet_etcd_errors_total",
		"Errors that ended the connection to etcd, or its making, by the reason of the condition.", "reason")
	fleetController = define(isGauge, "rdmad_fleet_controller",
		"1 if this rdmad is the fleet's controller, else 0.")
	fleetNodes = define(isGauge, "rdmad_fleet_nodes",
		"Nodes of the fleet by state, up or down, at most 15 seconds old. Only of the controller.", "state")
	fleetRollouts = define(isGauge, "rdmad_fleet_rollouts",
		"Policies of the fleet whose newest rollout is in a state: running, paused, halted or rolled_back. Only of the controller.", "state")
)

// Fleet is this rdmad's part in a fleet.
type Fleet struct {
	Connected         bool
	Assigned, Applied int64
	Drift             bool
	Lag               time.Duration
	Errors            map[string]uint64 // by reason
	Controller        bool
	Nodes             map[string]int // by state; nil if it is not known
	Rollouts          map[string]int // the newest of each policy, by state; nil if it is not known
}

// NewFleet makes a collector of an rdmad that is in a fleet.
func NewFleet(now func() Fleet) prometheus.Collector {
	descs := []*prometheus.Desc{fleetConnected, fleetAssigned, fleetApplied, fleetDrift, fleetLag, fleetErrors, fleetController, fleetNodes, fleetRollouts}
	return &group{descs, func(to sink) {
		f := now()
		to.gauge(fleetConnected, truth(f.Connected))
		to.gauge(fleetAssigned, float64(f.Assigned))
		to.gauge(fleetApplied, float64(f.Applied))
		to.gauge(fleetDrift, truth(f.Drift))
		to.gauge(fleetLag, f.Lag.Seconds())
		to.gauge(fleetController, truth(f.Controller))
		for reason, n := range f.Errors {
			to.counter(fleetErrors, n, reason)
		}
		for state, n := range f.Nodes {
			to.gauge(fleetNodes, float64(n), state)
		}
		for state, n := range f.Rollouts {
			to.gauge(fleetRollouts, float64(n), state)
		}
	}}
}
