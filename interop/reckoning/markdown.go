package reckoning

import (
	"fmt"
	"strconv"
	"strings"
)

// A block is a part of docs/roundtrips.md that is generated from figures. It is
// between <!-- NAME --> and <!-- end -->.
const blockEnd = "<!-- end -->"

// Blocks returns the blocks of the page by name. exact is the report of the
// test, guest that of the guest.
func Blocks(exact, guest *Report) map[string]string {
	return map[string]string{
		"ways":   exact.waysTable(),
		"trips":  exact.tripsTable(),
		"counts": exact.countsTables(),
		"costs":  exact.costsTable(),
		"short":  exact.placementsTable(),
		"guest":  guest.latencyTable(),
	}
}

// Fill replaces the blocks of a page. It fails if the page does not have one of
// them.
func Fill(page string, blocks map[string]string) (string, error) {
	for name, text := range blocks {
		before, rest, ok := strings.Cut(page, "<!-- "+name+" -->\n")
		_, after, ended := strings.Cut(rest, blockEnd)
		if !ok || !ended {
			return "", fmt.Errorf("there is no block %q", name)
		}
		page = before + "<!-- " + name + " -->\n" + text + blockEnd + after
	}
	return page, nil
}

// row writes one row of a table.
func row(b *strings.Builder, cells ...string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// head writes the first two rows of a table.
func head(b *strings.Builder, cells ...string) {
	row(b, cells...)
	b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

func (r *Report) names(first string) []string {
	names := []string{first}
	for i := range r.Ways {
		names = append(names, r.Ways[i].Name)
	}
	return names
}

// waysTable returns a table of the ways and their memory.
func (r *Report) waysTable() string {
	var b strings.Builder
	head(&b, "way", "settings of both ends, above the defaults", "server's receives per connection")
	for i := range r.Ways {
		w := &r.Ways[i]
		set := "none"
		if len(w.Set) > 0 {
			set = "`" + strings.Join(w.Set, "` `") + "`"
		}
		row(&b, w.Name, set, fmt.Sprintf("%d × %d bytes = %s", w.Credits, w.ReceiveBytes, size(int64(w.Credits)*w.ReceiveBytes)))
	}
	return b.String()
}

// size formats n bytes in KiB or MiB.
func size(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// tripsTable returns a table of each call's round trips, and its latency at the
// longest delay.
func (r *Report) tripsTable() string {
	var b strings.Builder
	head(&b, r.names("call")...)
	for _, work := range Works() {
		cells := []string{work.String()}
		for i := range r.Ways {
			text := "-"
			if c := r.Ways[i].Cell(work); c != nil {
				text = fmt.Sprintf("%d, %s ms", c.RoundTrips, millis(c.Latency[len(c.Latency)-1].MS))
			}
			cells = append(cells, text)
		}
		row(&b, cells...)
	}
	return b.String()
}

// costsTable returns a table of what the ways cost besides round trips, for
// three calls.
func (r *Report) costsTable() string {
	var b strings.Builder
	works := []Work{{Op: "write", Size: 4 << 10}, {Op: "write", Size: 32 << 10}, {Op: "read", Size: 32 << 10}}
	cells := []string{"way", "receives of a connection, each end"}
	for _, work := range works {
		cells = append(cells, work.String()+": operations", "bytes beyond the data", "copied")
	}
	head(&b, cells...)
	for i := range r.Ways {
		w := &r.Ways[i]
		cells := []string{w.Name, size(int64(w.Credits) * w.ReceiveBytes)}
		for _, work := range works {
			c := w.Cell(work)
			if c == nil {
				cells = append(cells, "-", "-", "-")
				continue
			}
			for _, n := range []uint64{
				c.Operations(), c.BytesToServer + c.BytesToClient - uint64(work.Size), c.ClientCopies + c.ServerCopies,
			} {
				cells = append(cells, strconv.FormatUint(n, 10))
			}
		}
		row(&b, cells...)
	}
	return b.String()
}

// placementsTable returns a table of what results cost with each placement:
// operations, bytes beyond the data, and copied bytes.
func (r *Report) placementsTable() string {
	var b strings.Builder
	cells := []string{"call"}
	for i := range r.Placements {
		name := r.Placements[i].Name
		cells = append(cells, name+": operations", "bytes beyond the data", "copied")
	}
	head(&b, cells...)
	for _, work := range Reads() {
		cells := []string{work.String()}
		for i := range r.Placements {
			c := r.Placements[i].Cell(work)
			if c == nil {
				cells = append(cells, "-", "-", "-")
				continue
			}
			for _, n := range []uint64{c.Operations(), c.BytesToServer + c.BytesToClient - uint64(work.Size), c.ClientCopies + c.ServerCopies} {
				cells = append(cells, strconv.FormatUint(n, 10))
			}
		}
		row(&b, cells...)
	}
	return b.String()
}

func millis(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// countsTables returns a table of all counts for each way.
func (r *Report) countsTables() string {
	var b strings.Builder
	for i := range r.Ways {
		w := &r.Ways[i]
		fmt.Fprintf(&b, "\n### %s\n\n", w.Name)
		head(&b, "call", "Sends there", "back", "RDMA Reads", "Writes", "registrations",
			"invalidated here", "by the peer", "round trips", "bytes there", "back", "copied by client", "server")
		for _, c := range w.Cells {
			cells := []string{c.String()}
			for _, n := range []uint64{
				c.CallSends, c.ReplySends, c.RDMAReads, c.RDMAWrites, c.Registrations,
				c.LocalInvalidations, c.RemoteInvalidations, c.RoundTrips, c.BytesToServer, c.BytesToClient,
				c.ClientCopies, c.ServerCopies,
			} {
				cells = append(cells, strconv.FormatUint(n, 10))
			}
			row(&b, cells...)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// latencyTable returns a table of the latencies at all delays.
func (r *Report) latencyTable() string {
	var b strings.Builder
	head(&b, r.names("call")...)
	for _, work := range Works() {
		cells := []string{work.String()}
		for i := range r.Ways {
			var all []string
			if c := r.Ways[i].Cell(work); c != nil {
				for _, l := range c.Latency {
					all = append(all, strconv.FormatFloat(l.MS, 'f', 1, 64))
				}
			}
			cells = append(cells, strings.Join(all, ", "))
		}
		row(&b, cells...)
	}
	return b.String()
}
