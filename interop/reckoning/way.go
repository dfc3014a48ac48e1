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

// Placements are what results may be asked for with send-based DDP (ddp.placement),
// in receives with eight pages.
func Placements() []Way {
	var ways []Way
	for _, place := range []string{"exrw", "tbsn", "choice", "bysize"} {
		ways = append(ways, Way{place, append([]string{
			"extensions.v2=required", "extensions.characteristics=on", "extensions.xmit=on", "extensions.send_ddp=on", "ddp.placement=" + place,
		}, sized(eightPages)...)})
	}
	return ways
}

// Reads are what they do: READs that get what they ask for, and some that get less.
func Reads() []Work {
	return []Work{
		{Op: "read", Size: 32 << 10}, {Op: "read", Size: 256 << 10}, {Op: "read", Size: 2 << 10, Asked: 256 << 10},
		{Op: "read", Size: 8 << 10, Asked: 256 << 10}, {Op: "read", Size: 32 << 10, Asked: 1 << 20}, {Op: "read", Size: 64 << 10, Asked: 1 << 20},
	}
}

// sized has Sends of up to n bytes.
func sized(n string) []string { return []string{"inline.send_max=" + n, "inline.receive_size=" + n} }

// Work is what a call does: an op of rdmactl bench, with Size bytes.
type Work struct {
	Op   string `json:"op"`
	Size int    `json:"size"`
	// Asked is the most bytes that a read asks for, Size if 0: it gets Size.
	Asked int `json:"asked,omitempty"`
}

// Works are those that every way does.
func Works() []Work {
	works := []Work{{Op: "null"}, {Op: "echo", Size: 2 << 10}, {Op: "echo", Size: 6 << 10}}
	for _, op := range []string{"read", "write"} {
		for _, size := range []int{4 << 10, 32 << 10, 256 << 10, 1 << 20} {
			works = append(works, Work{Op: op, Size: size})
		}
	}
	return works
}

func (w Work) String() string {
	name := strings.ToUpper(w.Op)
	switch {
	case w.Size == 0:
		return name
	case w.Asked > 0:
		return fmt.Sprintf("%s %s of %s", name, whole(w.Size), whole(w.Asked))
	}
	return name + " " + whole(w.Size)
}

// whole writes so many bytes.
func whole(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
