//go:build race

package connector

// raceEnabled: the race detector makes sync.Pool forget at random.
const raceEnabled = true
