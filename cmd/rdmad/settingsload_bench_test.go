package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkUpdate makes the updates of TestSettingsUnderLoad one after another, with
// connections that make no calls. It measures the processor time of rdmad and of the client
// separately from the disk's time. rdmad runs as its own process.
func BenchmarkUpdate(b *testing.B) {
	if *loadProfile != "" {
		path, err := filepath.Abs(*loadProfile)
		if err != nil {
			b.Fatal(err)
		}
		b.Setenv(profileVar, path)
	}
	l := startLoad(b, unlimited(b))
	l.updates.init(l.conn, l.ids(b))
	n := 0
	update := func() {
		n++
		l.updates.update(b, n)
	}
	for range 4 * len(l.updates.ids) { // each connection gets settings of its own, and receives for its credits
		update()
	}
	var spent costs
	before := l.costs(b)
	l.profiled(b)
	for b.Loop() {
		update()
	}
	l.profiled(b)
	spent.add(before, l.costs(b))
	for unit, sum := range map[string]float64{
		"rdmad-cpu-us/op": spent.rdmad.CPU * 1e6, "rdmad-B/op": spent.rdmad.Allocated,
		"client-cpu-us/op": spent.clients.CPU * 1e6, "client-B/op": spent.clients.Allocated,
	} {
		b.ReportMetric(sum/float64(b.N), unit)
	}
}

// unlimited returns a rig whose rdmad does not limit the rate of updates.
func unlimited(b *testing.B) *rig {
	r := newRig(b)
	path := filepath.Join(r.dir, "rdmad.yaml")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), "control: {", "control: {rate: {requests_per_second: 1000000, burst: 1000000}, ", 1)), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	return r
}
