//go:build race

package fh

// raceEnabled: the race detector makes sync.Pool forget at random.
const raceEnabled = true
