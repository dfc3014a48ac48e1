package reckoning

import (
	"fmt"
	"strings"
)

// Way is how both ends of a connection are set.
type Way struct {
	Name string
	Set  []string // KEY=VALUE, above the defaults
}

// structured is a receive size with room for a plain segment and eight pages:
// 32 KiB of data by send-based DDP in one message.
const structured = "33792"

// Ways are compared in this order: what a kernel server without private data
// gets, what a kernel client of today has, version 2, and its extensions, each
// alone and both together.
func Ways() []Way {
	version2 := []string{"extensions.v2=required"}
	transmission := append(version2, "extensions.characteristics=on", "extensions.xmit=on")
	with := func(set []string, more ...string) []string { return append(set[:len(set):len(set)], more...) }
	return []Way{
		{"version 1, 1024", []string{"inline.send_max=1024", "inline.receive_size=1024"}},
		{"version 1, 4096", nil},
		{"version 2", version2},
		{"continuation", with(transmission, "extensions.continuation=on")},
		{"send-based DDP", with(transmission, "extensions.send_ddp=on", "inline.receive_size="+structured)},
		{"both", with(transmission, "extensions.continuation=on", "extensions.send_ddp=on", "inline.receive_size="+structured)},
	}
}

// Work is what a call does: an op of rdmactl bench, with Size bytes.
type Work struct {
	Op   string `json:"op"`
	Size int    `json:"size"`
}

// Works are those that every way does.
func Works() []Work {
	works := []Work{{"null", 0}, {"echo", 2 << 10}, {"echo", 6 << 10}}
	for _, op := range []string{"read", "write"} {
		for _, size := range []int{4 << 10, 32 << 10, 256 << 10, 1 << 20} {
			works = append(works, Work{op, size})
		}
	}
	return works
}

func (w Work) String() string {
	name := strings.ToUpper(w.Op)
	switch {
	case w.Size == 0:
		return name
	case w.Size%(1<<20) == 0:
		return fmt.Sprintf("%s %d MiB", name, w.Size>>20)
	}
	return fmt.Sprintf("%s %d KiB", name, w.Size>>10)
}
