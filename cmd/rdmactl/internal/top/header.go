package top

import (
	"fmt"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// headerHeight is what the header needs: rdmad, totals, listeners, and an
// empty line where there is room for it.
func (m *model) headerHeight() int {
	n := 2 + m.listenerLines()
	if m.height >= airy {
		n++
	}
	return n
}

// airy is the height from which an empty line is affordable.
const airy = 20

// listenerLines is how many listeners are shown: some lines are better spent
// on connections.
func (m *model) listenerLines() int { return min(len(m.listeners), m.height/8) }

func (m *model) header() []string {
	out := []string{m.daemonLine(), m.totalsLine()}
	n := m.listenerLines()
	for i, l := range m.listeners[:n] {
		if rest := len(m.listeners) - i; i == n-1 && rest > 1 {
			text := fmt.Sprintf("and %d more listeners", rest)
			if i == 0 {
				text = plural(rest, "listener")
			}
			return append(out, newLine(m.width).add(faint, text).String())
		}
		out = append(out, m.listenerLine(l))
	}
	return out
}

// daemonLine says who rdmad is, or that it is away.
func (m *model) daemonLine() string {
	if m.away != nil {
		return m.awayLine("rdmad is away")
	}
	s, l := m.status, newLine(m.width)
	l.add(title, "rdmad "+s.GetVersion()).add(plain, "  up "+span(time.Duration(s.GetUptimeSeconds()*float64(time.Second))))
	l.add(plain, fmt.Sprintf("  revision %d", s.GetRevision()))
	if u := s.GetUnconfirmedRevision(); u != 0 {
		now := s.GetStarted().AsTime().Add(time.Duration(s.GetUptimeSeconds() * float64(time.Second)))
		left := max(s.GetConfirmDeadline().AsTime().Sub(now), 0)
		l.add(warn, fmt.Sprintf("  %d rolled back in %s unless confirmed", u, span(left)))
	}
	if m.paused {
		l.add(warn.Bold(true), fmt.Sprintf("  paused, %s behind", plural(len(m.held), "sample")))
	}
	return l.right(faint, fmt.Sprintf("%s  every %s", m.o.Addr, m.o.Interval)).String()
}

// totalsLine is everything together, with what it was.
func (m *model) totalsLine() string {
	l := newLine(m.width)
	m.filtered(l)
	l.add(bold, plural(len(m.rows), "connection"))
	if m.filter.text != "" && !m.typing {
		l.add(warn, fmt.Sprintf(" with %q", m.filter.text))
	}
	if m.total == nil {
		return l.add(faint, "  first sample to come").String()
	}
	const labels = len("  calls/s 12345   MB/s in 12345 out 12345 ")
	width := max(min((m.width-l.used-labels)/2, remembered), 0)
	start := l.used
	l.add(plain, "  calls/s ").add(bold, fmt.Sprintf("%5s ", rate(m.total.GetCalls()))).add(graph, m.calls.spark(width))
	l.to(start + len("  calls/s 12345 ") + width)
	l.add(plain, "  MB/s in ").add(bold, fmt.Sprintf("%5s", megabytes(m.total.GetBytesReceived())))
	l.add(plain, " out ").add(bold, fmt.Sprintf("%5s ", megabytes(m.total.GetBytesSent()))).add(graph, m.bytes.spark(width))
	return l.String()
}

// meterWidth is the width of the bar for registered memory.
const meterWidth = 8

func (m *model) listenerLine(s *rdmadv1.ListenerSample) string {
	l := newLine(m.width)
	name := 8
	for _, s := range m.listeners {
		name = max(name, min(lipgloss.Width(s.GetName()), 16))
	}
	l.add(bold, padTo(s.GetName(), name, false)).add(plain, fmt.Sprintf(" %4d up", s.GetConnections()))
	l.add(plain, "  p50 ").add(bold, fmt.Sprintf("%-7s", micros(s.GetServiceTimeUsP50())))
	l.add(plain, " p99 ").add(bold, fmt.Sprintf("%-7s", micros(s.GetServiceTimeUsP99())))
	used, limit := s.GetMemoryUsed(), s.GetMemoryLimit()
	l.add(plain, "  memory ")
	if limit > 0 {
		l.add(graph, padTo(terminal.Bar(used, limit, meterWidth), meterWidth, false))
		l.add(plain, fmt.Sprintf(" %s of %s", size(used), size(limit)))
	} else {
		l.add(plain, size(used))
	}
	return l.String()
}
