//go:build race

package nfs

// raceEnabled: the race detector makes sync.Pool forget at random.
const raceEnabled = true
