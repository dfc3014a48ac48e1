package reckoning

import (
	"fmt"
	"strings"
)

// Way is a configuration of both ends of a connection.
type Way struct {
	Name string
	Set  []string // KEY=VALUE, in addition to the defaults
}

// Receive sizes with room for a plain segment of 1 KiB and one or eight pages.
// Eight pages hold 32 KiB of data by send-based DDP in one message.
const (
	onePage    = "5120"
	eightPages = "33792"
)

// Ways returns the compared ways in order: version 1 without private data,
// version 1 as in today's kernel client, version 2, its extensions, each alone
// and both together, and last, large receives without extensions.
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

// Placements returns one way for each value of ddp.placement, with send-based
// DDP and receives with eight pages.
func Placements() []Way {
	var ways []Way
	for _, place := range []string{"exrw", "tbsn", "choice", "bysize"} {
		ways = append(ways, Way{place, append([]string{
			"extensions.v2=required", "extensions.characteristics=on", "extensions.xmit=on", "extensions.send_ddp=on", "ddp.placement=" + place,
		}, sized(eightPages)...)})
	}
	return ways
}

// Reads returns the work for Placements: READs that get what they ask for, and
// READs that get less.
func Reads() []Work {
	return []Work{
		{Op: "read", Size: 32 << 10}, {Op: "read", Size: 256 << 10}, {Op: "read", Size: 2 << 10, Asked: 256 << 10},
		{Op: "read", Size: 8 << 10, Asked: 256 << 10}, {Op: "read", Size: 32 << 10, Asked: 1 << 20}, {Op: "read", Size: 64 << 10, Asked: 1 << 20},
	}
}

// sized returns the settings for Sends of up to n bytes.
func sized(n string) []string { return []string{"inline.send_max=" + n, "inline.receive_size=" + n} }

// Work is what a call does: an operation of rdmactl bench, with Size bytes.
type Work struct {
	Op   string `json:"op"`
	Size int    `json:"size"`
	// Asked is the most bytes that a READ asks for. 0 means Size.
	Asked int `json:"asked,omitempty"`
}

// Works returns the work that every way does.
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

// whole formats n bytes in KiB or MiB, without a fraction.
func whole(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
