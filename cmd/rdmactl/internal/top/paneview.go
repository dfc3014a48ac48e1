package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// block is a part of the pane under a title; its lines are made for the
// width that it gets.
type block struct {
	title string
	lines []string
}

// twoColumns is the width from which the pane's blocks stand side by side.
const twoColumns = 100

// paneLines is the whole pane, not cut to the screen's height.
func (m *model) paneLines() []string {
	p := m.pane
	head := newLine(m.width).add(title, "Connection "+p.id)
	if p.conn != nil {
		c := p.conn.GetConnection()
		head.add(plain, fmt.Sprintf("  %s from %s at listener %s", strings.ToLower(c.GetState().String()), c.GetPeer(), c.GetListener()))
	}
	out := []string{head.String()}
	if p.err != nil {
		out = append(out, newLine(m.width).add(bad, m.o.Explain(p.err)).String())
	}
	if p.conn == nil {
		return out
	}
	if m.width < twoColumns {
		left, right := m.paneBlocks(m.width)
		return append(out, stack(m.width, append(left, right...))...)
	}
	width := (m.width - 3) / 2
	left, right := m.paneBlocks(width)
	beside := lipgloss.JoinHorizontal(lipgloss.Top,
		plain.Width(width+3).Render(strings.Join(stack(width, left), "\n")), strings.Join(stack(width, right), "\n"))
	return append(out, strings.Split(beside, "\n")...)
}

func (m *model) paneBlocks(width int) (left, right []block) {
	p := m.pane
	c, t := p.conn.GetConnection(), p.conn.GetTransport()
	left = []block{
		{"Traffic", m.traffic(width)},
		{"Negotiated", pairs(width, negotiated(c))},
		{"Calls and operations since " + c.GetSince().AsTime().Local().Format(time.DateTime), pairs(width, counters(c))},
		{"Transport", pairs(width, transport(t))},
	}
	right = []block{
		{"Sizes of calls", sizes(width, t.GetCallSizes())},
		{"Sizes of replies", sizes(width, t.GetReplySizes())},
		{"Settings in force", effective(width, p.settings.GetValues())},
	}
	return left, right
}

// traffic is the rates with sparklines.
func (m *model) traffic(width int) []string {
	r := m.pane.row
	if r == nil || r.rates == nil {
		return []string{newLine(width).add(faint, "no sample yet").String()}
	}
	graphs := max(width-17, 0)
	return []string{
		newLine(width).add(plain, "calls/s  ").add(bold, fmt.Sprintf("%7s ", rate(r.rates.GetCalls()))).add(graph, r.calls.spark(graphs)).String(),
		newLine(width).add(plain, "MB/s     ").add(bold, fmt.Sprintf("%7s ", megabytes(r.rates.GetBytesReceived()+r.rates.GetBytesSent()))).add(graph, r.bytes.spark(graphs)).String(),
		newLine(width).add(faint, "in ").add(plain, megabytes(r.rates.GetBytesReceived())).add(faint, "  out ").add(plain, megabytes(r.rates.GetBytesSent())).
			add(faint, "  reads ").add(plain, rate(r.rates.GetRdmaReads())).add(faint, "  writes ").add(plain, rate(r.rates.GetRdmaWrites())).
			add(faint, "  sends ").add(plain, rate(r.rates.GetSends())).String(),
		newLine(width).add(faint, "in progress ").add(plain, fmt.Sprintf("%d of %d credits", r.busy, r.credits)).String(),
	}
}

type pair struct{ name, value string }

func negotiated(c *rdmadv1.Connection) []pair {
	extensions := cmp.Or(strings.Join(c.GetExtensions(), ", "), "none")
	return []pair{
		{"rpc-over-rdma version", fmt.Sprint(c.GetRpcVersion())},
		{"inline send", fmt.Sprintf("%d bytes", c.GetInlineSend())},
		{"inline receive", fmt.Sprintf("%d bytes", c.GetInlineReceive())},
		{"credits granted", fmt.Sprint(c.GetCreditsGranted())},
		{"remote invalidation", map[bool]string{true: "on", false: "off"}[c.GetRemoteInvalidation()]},
		{"extensions", extensions},
		{"provider", c.GetProvider()},
		{"service", c.GetService()},
		{"local", c.GetLocal()},
	}
}

func counters(c *rdmadv1.Connection) []pair {
	return []pair{
		{"calls", whole(c.GetCalls())},
		{"replies", whole(c.GetReplies())},
		{"reverse calls", whole(c.GetReverseCalls())},
		{"rdma reads", whole(c.GetRdmaReads())},
		{"rdma writes", whole(c.GetRdmaWrites())},
		{"sends", whole(c.GetSends())},
		{"sends with invalidate", whole(c.GetSendsWithInvalidate())},
		{"received", size(c.GetBytesReceived())},
		{"sent", size(c.GetBytesSent())},
		{"errors", whole(c.GetErrors())},
	}
}

// transport is every number of the message, in its order, under its name.
func transport(t *rdmadv1.TransportStatistics) (out []pair) {
	fields := t.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Kind() != protoreflect.DoubleKind || f.IsList() {
			continue
		}
		v := t.ProtoReflect().Get(f).Float()
		text := whole(v)
		if v != float64(int64(v)) {
			text = fmt.Sprintf("%.3f", v)
		}
		out = append(out, pair{strings.ReplaceAll(string(f.Name()), "_", " "), text})
	}
	return out
}

func pairs(width int, all []pair) (out []string) {
	name := 0
	for _, p := range all {
		name = max(name, lipgloss.Width(p.name))
	}
	for _, p := range all {
		out = append(out, newLine(width).add(faint, padTo(p.name, name+2, false)).add(plain, p.value).String())
	}
	return out
}

// sizes is a histogram.
func sizes(width int, all []*rdmadv1.SizeCount) (out []string) {
	most := 0.0
	for _, s := range all {
		most = max(most, s.GetCount())
	}
	for _, s := range all {
		if len(out) == 0 && s.GetCount() == 0 {
			continue
		}
		l := newLine(width).add(faint, fmt.Sprintf("from %8s ", size(s.GetFrom()))).add(plain, fmt.Sprintf("%9s ", whole(s.GetCount())))
		out = append(out, l.add(graph, terminal.Bar(s.GetCount(), most, max(width-l.used, 0))).String())
	}
	if len(out) == 0 {
		out = []string{newLine(width).add(faint, "none").String()}
	}
	return out
}

// effective is the settings with where they come from, and since which
// revision where there is room for that.
func effective(width int, all []*rdmadv1.SettingValue) (out []string) {
	key, value := 0, 0
	for _, v := range all {
		key, value = max(key, len(v.GetKey())), max(value, len(v.GetValue()))
	}
	for _, v := range all {
		style, revision := plain, ""
		if v.GetRevision() > 0 {
			style, revision = good, fmt.Sprintf("  rev %d", v.GetRevision())
		}
		l := newLine(width).add(faint, padTo(v.GetKey(), key+1, false)).add(style, padTo(v.GetValue(), value+1, false)).add(faint, v.GetSource())
		if l.used+len(revision) <= width {
			l.add(faint, revision)
		}
		out = append(out, l.String())
	}
	return out
}

// stack puts blocks one under the other.
func stack(width int, blocks []block) (out []string) {
	for _, b := range blocks {
		out = append(out, "", newLine(width).add(bold, b.title).String())
		out = append(out, b.lines...)
	}
	return out
}
