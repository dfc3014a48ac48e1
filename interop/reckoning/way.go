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

// Receives with room for a plain segment of 1 KiB and one page, or eight: 32 KiB
// of data by send-based DDP in one message.
const (
	onePage    = "5120"
	eightPages = "33792"
)

// Ways are compared in this order: what a server without private data gets,
// what a kernel client of today has, version 2, and its extensions, each alone
// and both together; last, what large receives do without any of them.
func Ways() []Way {
	xmit := []string{"extensions.v2=required", "extensions.characteristics=on", "extensions.xmit=on"}
	const continuation, ddp = "extensions.continuation=on", "extensions.send_ddp=on"
	with := func(set []string, more ...string) []string { return append(set[:len(set):len(set)], more...) }
	return []Way{
		{"version 1, 1024", sized("1024")},
		{"version 1, 4096", nil},
		{"version 2", xmit[:1:1]},
		{"continuation", with(xmit, continuation)},
		{"send-based DDP", with(with(xmit, ddp), sized(eightPages)...)},
		{"both", with(with(xmit, continuation, ddp), sized(eightPages)...)},
		{"both, one page", with(with(xmit, continuation, ddp), sized(onePage)...)},
		{"version 1, inline", append(sized(eightPages), "ddp.min_chunk="+eightPages)},
	}
}

// sized has Sends of up to n bytes.
func sized(n string) []string { return []string{"inline.send_max=" + n, "inline.receive_size=" + n} }

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
