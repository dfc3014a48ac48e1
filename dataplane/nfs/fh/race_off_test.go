//go:build !race

package fh

const raceEnabled = false
