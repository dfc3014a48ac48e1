//go:build race

package fh

// raceEnabled is true because with the race detector sync.Pool drops items at
// random.
const raceEnabled = true
