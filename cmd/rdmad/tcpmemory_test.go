package main

import "testing"

// TestTCPMemoryFollows: services on TCP have their part of limits.memory, also after
// it has changed.
func TestTCPMemoryFollows(t *testing.T) {
	r := startHere(t, t.TempDir(), "limits: {memory: 1073741824}\n")
	defer r.end()
	r.addDisk()
	want := func(memory int64) {
		t.Helper()
		servers := 0
		for _, sv := range r.services.all {
			if tcp := sv.tcp.Load(); tcp != nil {
				servers++
				if got := tcp.MemoryLimit(); got != int(memory/16) {
					t.Errorf("of %d bytes %s on TCP has %d", memory, sv.spec.Name, got)
				}
			}
		}
		if servers != 1 {
			t.Errorf("%d services on TCP", servers)
		}
	}
	want(1 << 30)
	r.data.SetMemory(512 << 20)
	want(512 << 20)
}
