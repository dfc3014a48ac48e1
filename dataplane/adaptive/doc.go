// Package adaptive divides registered memory between connections: how many credits each
// gets, and how much memory each listener may have. It only computes with measured values:
// it has no clock, lock, goroutine or connection. Equal inputs give equal results.
//
// A step, once per Period, has three parts.
//
//   - Demand. A connection that uses at least 3/4 of its target asks for twice the calls it
//     had in progress. One that used less than a quarter for Patience steps asks for twice
//     what it used. In between, nothing changes.
//   - Pressure. While calls of a group (a listener's connections) wait longer than High
//     before their service starts, the group's level falls by a fraction. While they wait
//     less than Low, it rises by a smaller fraction. After each change the controller waits
//     for the effect. In between, nothing changes.
//   - Sharing. A level is a number of credits per unit of weight. The common level is the
//     highest at which all receives fit the budget. A connection gets weight times the
//     lower of the two levels, but at least its minimum and at most what it asks for:
//     weighted max-min fairness.
//
// A grant stays until answers reduce it. So a connection's memory counts with the larger of
// its current and its new grant, and a target rises only into free memory.
package adaptive

import "time"

// Period is the time between steps for which the other constants are chosen.
const Period = 100 * time.Millisecond

// Thresholds and times of the controller.
const (
	// High is the queueing delay above which a group has too many calls. Below Low it may
	// have more.
	High = 20 * time.Millisecond
	Low  = 5 * time.Millisecond
	// Hold is the number of steps between two changes of a group's level.
	Hold = 5
	// Calm is the number of steps for which the delay must be below Low before the level
	// rises, so that it does not rise between two waves of calls.
	Calm = 10
	// Patience is the number of steps after which unused demand is dropped.
	Patience = 10
)
