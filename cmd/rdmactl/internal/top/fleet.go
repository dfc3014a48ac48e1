package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// RunFleet shows the nodes of a fleet as Run shows the connections of one rdmad.
func RunFleet(ctx context.Context, o Options) error {
	f := &fleetFeed{client: rdmadv1.NewFleetServiceClient(o.Conn)}
	looking, done := context.WithTimeout(ctx, o.Timeout)
	_, err := f.client.ListNodes(looking, &rdmadv1.ListNodesRequest{PageSize: 1}) // an error that does not go away ends it here
	done()
	if err != nil {
		return err
	}
	return show(ctx, &o, newFleetModel(&o), f.follow)
}

// fleetFeed brings the events of a watch, and continues it when rdmad or etcd come back.
type fleetFeed struct {
	client rdmadv1.FleetServiceClient
	token  string
}

func (f *fleetFeed) follow(ctx context.Context, send func(tea.Msg)) error {
	stream, err := f.client.WatchNodes(ctx, &rdmadv1.WatchNodesRequest{ResumeToken: f.token})
	var list []*rdmadv1.WatchNodesResponse // that is not complete: if it breaks off, the next stream has another one
	for err == nil {
		var e *rdmadv1.WatchNodesResponse
		if e, err = stream.Recv(); err != nil {
			break
		}
		if list = append(list, e); e.GetType() == rdmadv1.WatchNodesResponse_EXISTING {
			continue
		}
		for _, e := range list {
			send(e)
		}
		list = list[:0]
		f.token = cmp.Or(e.GetResumeToken(), f.token)
	}
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return err
}

// nodeRow is a node in the table.
type nodeRow struct {
	*rdmadv1.FleetNode
	calls history
}

// fleetModel is all that the view of a fleet shows.
type fleetModel struct {
	screen[*nodeRow]
	rows    map[string]*nodeRow
	listing map[string]bool               // names since the list began; nil while there is none
	paused  []*rdmadv1.WatchNodesResponse // what came since; nil while the view goes on
	first   int                           // row at the top
}

func newFleetModel(o *Options) *fleetModel {
	return &fleetModel{screen: newScreen(fleetColumns, o), rows: make(map[string]*nodeRow)}
}

// Update implements tea.Model.
func (m *fleetModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.took(msg)
	switch msg := msg.(type) {
	case *rdmadv1.WatchNodesResponse:
		m.away = nil
		if m.paused == nil {
			m.take(msg)
		} else if len(m.paused) < mostPaused {
			m.paused = append(m.paused, msg)
		} else {
			m.goOn() // rather than forget what changed
			m.take(msg)
		}
	case tea.PasteMsg:
		if m.typing {
			m.filter.insert(msg.Content)
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	m.arrange()
	return m, nil
}

// mostPaused bounds the events that wait while the view is paused.
const mostPaused = 1 << 16

func (m *fleetModel) goOn() {
	held := m.paused
	m.paused = nil
	for _, e := range held {
		m.take(e)
	}
}

// take shows an event. A list that is complete ends the nodes that were not in it.
func (m *fleetModel) take(e *rdmadv1.WatchNodesResponse) {
	n := e.GetNode()
	switch e.GetType() {
	case rdmadv1.WatchNodesResponse_EXISTING, rdmadv1.WatchNodesResponse_CHANGED:
		if e.GetType() == rdmadv1.WatchNodesResponse_EXISTING {
			if m.listing == nil {
				m.listing = make(map[string]bool)
			}
			m.listing[n.GetName()] = true
		}
		r := m.rows[n.GetName()]
		if r == nil {
			r = &nodeRow{}
			m.rows[n.GetName()] = r
		}
		if r.FleetNode == nil || !r.GetStatus().GetTime().AsTime().Equal(n.GetStatus().GetTime().AsTime()) {
			r.calls.add(n.GetStatus().GetCallsPerSecond())
		}
		r.FleetNode = n
	case rdmadv1.WatchNodesResponse_REMOVED:
		delete(m.rows, n.GetName())
	case rdmadv1.WatchNodesResponse_LISTED:
		for name := range m.rows {
			if !m.listing[name] {
				delete(m.rows, name)
			}
		}
		m.listing = nil
	}
}

// up reports whether the load of the last report is that of now.
func (r *nodeRow) up() bool { return r.GetState() == rdmadv1.FleetNode_UP }

// load is a number of a node's last report, which says nothing of a node that is down.
func load(of func(*nodeRow) float64) func(*nodeRow) float64 {
	return func(r *nodeRow) float64 {
		if !r.up() {
			return none
		}
		return of(r)
	}
}

var fleetColumns = []column[*nodeRow]{
	texts("name", "NODE", 0, 0, func(r *nodeRow) string { return r.GetName() }),
	texts("state", "STATE", 0, 0, func(r *nodeRow) string { return r.GetState().String() }),
	numbers("calls", "CALLS/S", 0, 0, rate, load(func(r *nodeRow) float64 { return r.GetStatus().GetCallsPerSecond() })),
	numbers("errors", "ERRORS/S", 0, 0, rate, load(func(r *nodeRow) float64 { return r.GetStatus().GetErrorsPerSecond() })),
	numbers("p99", "P99", 0, 1, micros, load(func(r *nodeRow) float64 { return float64(r.GetStatus().GetP99().AsDuration()) / 1e3 })),
	numbers("connections", "CONN", 0, 3, whole, load(func(r *nodeRow) float64 { return float64(r.GetStatus().GetConnections()) })),
	numbers("conditions", "COND", 0, 2, whole, func(r *nodeRow) float64 { return float64(len(r.GetStatus().GetConditions())) }),
	texts("drift", "DRIFT", 0, 4, func(r *nodeRow) string {
		if r.GetDrift() {
			return "yes"
		}
		return "-"
	}),
	numbers("revision", "REVISION", 0, 5, whole, func(r *nodeRow) float64 { return r.GetAppliedRevision() }),
}

// FleetColumns has the names of the columns by which nodes can be sorted.
var FleetColumns = namesOf(fleetColumns)

// arrange filters and sorts the nodes.
func (m *fleetModel) arrange() {
	m.visible = m.visible[:0]
	for _, r := range m.rows {
		text := r.GetName()
		for label, value := range r.GetLabels() {
			text += " " + label + "=" + value
		}
		if m.matches(text) {
			m.visible = append(m.visible, r)
		}
	}
	m.sortRows(func(a, b *nodeRow) int { return strings.Compare(a.GetName(), b.GetName()) })
	m.first = max(min(m.first, len(m.visible)-m.tableHeight()), 0)
}

func (m *fleetModel) key(k tea.KeyPressMsg) tea.Cmd {
	switch s := k.String(); {
	case s == "ctrl+c", s == "q" && !m.typing:
		return tea.Quit
	case s == "ctrl+z":
		return tea.Suspend
	case m.typing, s == "esc":
		m.filterKey(k)
	default:
		m.tableKey(s)
	}
	m.arrange()
	return nil
}

func (m *fleetModel) tableKey(s string) {
	switch s {
	case "space", "p":
		if m.paused != nil {
			m.goOn()
		} else {
			m.paused = []*rdmadv1.WatchNodesResponse{}
		}
	default:
		if !m.orderKey(s) {
			m.first, _ = moved(s, m.first, len(m.visible), max(m.tableHeight()-1, 1))
		}
	}
}

// tableHeight is how many nodes fit: the header has two lines, the headings and the keys one.
func (m *fleetModel) tableHeight() int { return max(m.height-4, 0) }

var fleetHints = []keyHint{{"↑↓", "scroll"}, {"/", "filter"}, {"←→", "sort"}, {"r", "reverse"}, {"space", "pause"}, {"q", "quit"}}

// View implements tea.Model.
func (m *fleetModel) View() tea.View { return m.shown("rdmactl top --fleet", m.lines()) }

func (m *fleetModel) lines() []string {
	l := m.lay(m.width, -1)
	out := []string{m.stateLine(), m.totalsLine(), m.headings(l, m.width).String()}
	for _, r := range m.visible[m.first:min(m.first+m.tableHeight(), len(m.visible))] {
		out = append(out, m.rowLine(r, l))
	}
	out = pad(out[:min(len(out), max(m.height-1, 0))], m.height-1)
	last := newLine(m.width)
	if m.typing {
		m.typed(last, "name, label=value")
	} else {
		last.hints(fleetHints)
	}
	out = append(out, last.String())
	return out[:min(len(out), max(m.height, 1))]
}

// stateLine says what is shown, or that rdmad is away.
func (m *fleetModel) stateLine() string {
	if m.away != nil {
		return m.awayLine("no news")
	}
	l := newLine(m.width).add(title, "fleet")
	if m.paused != nil {
		l.add(warn.Bold(true), fmt.Sprintf("  paused, %s behind", plural(len(m.paused), "event")))
	}
	return l.right(faint, m.o.Addr).String()
}

// totalsLine is all nodes together.
func (m *fleetModel) totalsLine() string {
	var up, drift, unwell int
	var calls, errors, conns float64
	for _, r := range m.rows {
		if r.GetDrift() {
			drift++
		}
		if !r.GetHealthy() {
			unwell++
		}
		if r.up() {
			up++
			s := r.GetStatus()
			calls, errors, conns = calls+s.GetCallsPerSecond(), errors+s.GetErrorsPerSecond(), conns+float64(s.GetConnections())
		}
	}
	l := newLine(m.width)
	m.filtered(l)
	l.add(bold, plural(len(m.rows), "node")).add(plain, fmt.Sprintf("  %d up", up))
	l.add(plain, "  calls/s ").add(bold, rate(calls)).add(plain, "  errors/s ").add(bold, rate(errors)).add(plain, "  connections ").add(bold, count(conns))
	return l.add(plain, fmt.Sprintf("  drift %d  not healthy %d", drift, unwell)).String()
}

func (m *fleetModel) rowLine(r *nodeRow, l layout) string {
	out := newLine(m.width)
	for _, i := range l.shown {
		out.add(plain, " ").add(m.cellStyle(i, r), padTo(fleetColumns[i].text(r), l.widths[i], fleetColumns[i].right))
	}
	if left := m.width - out.used - 1; left >= leastSpark {
		w := min(left, mostSpark)
		out.add(plain, " ").add(graph, padTo(r.calls.spark(w), w, false))
	}
	return out.String()
}

// cellStyle marks what is not well.
func (m *fleetModel) cellStyle(i int, r *nodeRow) lipgloss.Style {
	s := r.GetStatus()
	switch fleetColumns[i].name {
	case "state":
		if !r.up() {
			return bad
		}
	case "errors":
		if r.up() && s.GetErrorsPerSecond() > 0 {
			return bad
		}
	case "conditions":
		if len(s.GetConditions()) > 0 {
			return warn
		}
	case "drift":
		if r.GetDrift() {
			return warn
		}
	}
	if m.away != nil || !r.up() {
		return faint
	}
	return plain
}
