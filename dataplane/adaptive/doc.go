// Package adaptive divides registered memory between connections: how many
// credits each is to be granted, and how much memory each listener may have.
// It is arithmetic on what was measured: no clock, lock, goroutine or
// connection. Equal inputs give equal results.
//
// A step, once per Period, has three parts.
//
//   - Demand. A connection that uses at least 3/4 of its target asks for twice
//     the calls it had in progress; one that used less than a quarter for
//     Patience steps asks for twice what it used. Between the two nothing
//     changes.
//   - Pressure. While calls of a group (a listener's connections) wait longer
//     than High before their service starts, the level of the group falls, by
//     a part of itself; while they wait less than Low it rises, by a smaller
//     one. After each change the effect is awaited. Between the two nothing
//     changes.
//   - Sharing. A level is a number of credits per unit of weight. The common
//     level is the highest at which all receives fit the budget; a connection
//     gets weight times the lower of the two levels, but at least its minimum
//     and at most what it asks for: weighted max-min fairness.
//
// What was granted stays until answers took it back, so a connection's memory
// counts with the larger of what it has and what it shall have, and a target
// rises only into what is free.
package adaptive

import "time"

// Period is the time between steps that the other constants are made for.
const Period = 100 * time.Millisecond

// Thresholds and times of the controller.
const (
	// High is the queueing delay above which a group has too many calls, Low
	// the one below which it may have more.
	High = 20 * time.Millisecond
	Low  = 5 * time.Millisecond
	// Hold is the number of steps between two changes of a group's level.
	Hold = 5
	// Calm is the number of steps that the delay must be below Low before the
	// level rises, so that a rise is not one of waves.
	Calm = 10
	// Patience is the number of steps after which unused demand is given up.
	Patience = 10
)
