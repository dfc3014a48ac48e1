package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// RunFleet shows the nodes of a fleet as Run shows the connections of one rdmad.
func RunFleet(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &fleetFeed{conn: o.Conn, client: rdmadv1.NewFleetServiceClient(o.Conn)}
	looking, done := context.WithTimeout(ctx, o.Timeout)
	_, err := f.client.ListNodes(looking, &rdmadv1.ListNodesRequest{PageSize: 1}) // an error that does not go away ends it here
	done()
	if err != nil {
		return err
	}
	p := tea.NewProgram(newFleetModel(&o), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Env), tea.WithoutSignalHandler())
	var feeding sync.WaitGroup
	feeding.Go(func() { f.run(ctx, p.Send) })
	quit := context.AfterFunc(ctx, p.Quit)
	_, err = p.Run()
	quit()
	cancel()
	feeding.Wait()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// fleetFeed brings the events of a watch, and continues it when rdmad or etcd come back.
type fleetFeed struct {
	conn   *grpc.ClientConn
	client rdmadv1.FleetServiceClient
	token  string
}

func (f *fleetFeed) run(ctx context.Context, send func(tea.Msg)) {
	for {
		err := f.follow(ctx, send)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("rdmad ended the stream")
		}
		send(offline{err, time.Now()})
		retry := time.NewTimer(retryAfter)
		select {
		case <-ctx.Done():
			retry.Stop()
			return
		case <-retry.C:
		}
		f.conn.ResetConnectBackoff()
	}
}

func (f *fleetFeed) follow(ctx context.Context, send func(tea.Msg)) error {
	stream, err := f.client.WatchNodes(ctx, &rdmadv1.WatchNodesRequest{ResumeToken: f.token})
	for err == nil {
		var e *rdmadv1.WatchNodesResponse
		if e, err = stream.Recv(); err == nil {
			send(e)
			f.token = cmp.Or(e.GetResumeToken(), f.token)
		}
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
	o             *Options
	width, height int
	rows          map[string]*nodeRow
	listing       map[string]bool // names since the list began; nil while there is none
	away          error           // why rdmad or etcd don't answer
	awaySince     time.Time
	paused        []*rdmadv1.WatchNodesResponse // what came since; nil while the view goes on
	sort          int
	reverse       bool
	filter        field
	typing        bool
	visible       []*nodeRow
	first         int // row at the top
}

func newFleetModel(o *Options) *fleetModel {
	return &fleetModel{o: o, width: 80, height: 24, rows: make(map[string]*nodeRow), sort: max(slices.Index(FleetColumns, o.Sort), 0), reverse: o.Reverse, filter: field{text: o.Filter}}
}

// Init implements tea.Model.
func (m *fleetModel) Init() tea.Cmd { return nil }

// Update implements tea.Model.
func (m *fleetModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case offline:
		if m.away == nil {
			m.awaySince = msg.at
		}
		m.away = msg.err
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

// fleetColumn is a column of the table of nodes.
type fleetColumn struct {
	name, title string
	right       bool
	drop        int // as of column
	text        func(*nodeRow) string
	cmp         func(a, b *nodeRow) int
}

func nodeTexts(name, title string, drop int, of func(*nodeRow) string) fleetColumn {
	return fleetColumn{name: name, title: title, drop: drop, text: of, cmp: func(a, b *nodeRow) int { return strings.Compare(of(a), of(b)) }}
}

// nodeNumbers are sorted with the largest first. With load, nodes that are down have none.
func nodeNumbers(name, title string, drop int, load bool, write func(float64) string, of func(*nodeRow) float64) fleetColumn {
	value := func(r *nodeRow) float64 {
		if load && !r.up() {
			return -1
		}
		return of(r)
	}
	return fleetColumn{
		name: name, title: title, right: true, drop: drop,
		text: func(r *nodeRow) string {
			if v := value(r); v >= 0 {
				return write(v)
			}
			return "-"
		},
		cmp: func(a, b *nodeRow) int { return cmp.Compare(value(b), value(a)) },
	}
}

var fleetColumns = []fleetColumn{
	nodeTexts("name", "NODE", 0, func(r *nodeRow) string { return r.GetName() }),
	nodeTexts("state", "STATE", 0, func(r *nodeRow) string { return r.GetState().String() }),
	nodeNumbers("calls", "CALLS/S", 0, true, rate, func(r *nodeRow) float64 { return r.GetStatus().GetCallsPerSecond() }),
	nodeNumbers("errors", "ERRORS/S", 0, true, rate, func(r *nodeRow) float64 { return r.GetStatus().GetErrorsPerSecond() }),
	nodeNumbers("p99", "P99", 1, true, micros, func(r *nodeRow) float64 { return float64(r.GetStatus().GetP99().AsDuration()) / 1e3 }),
	nodeNumbers("connections", "CONN", 3, true, whole, func(r *nodeRow) float64 { return float64(r.GetStatus().GetConnections()) }),
	nodeNumbers("conditions", "COND", 2, false, whole, func(r *nodeRow) float64 { return float64(len(r.GetStatus().GetConditions())) }),
	nodeTexts("drift", "DRIFT", 4, func(r *nodeRow) string {
		if r.GetDrift() {
			return "yes"
		}
		return "-"
	}),
	nodeNumbers("revision", "REVISION", 5, false, whole, func(r *nodeRow) float64 { return r.GetAppliedRevision() }),
}

// FleetColumns are the names of what nodes can be sorted by.
var FleetColumns = func() (names []string) {
	for i := range fleetColumns {
		names = append(names, fleetColumns[i].name)
	}
	return names
}()

// arrange filters and sorts the nodes.
func (m *fleetModel) arrange() {
	m.visible = m.visible[:0]
	want := strings.ToLower(m.filter.text)
	for _, r := range m.rows {
		text := r.GetName()
		for label, value := range r.GetLabels() {
			text += " " + label + "=" + value
		}
		if strings.Contains(strings.ToLower(text), want) {
			m.visible = append(m.visible, r)
		}
	}
	slices.SortFunc(m.visible, func(a, b *nodeRow) int {
		n := fleetColumns[m.sort].cmp(a, b)
		if m.reverse {
			n = -n
		}
		return cmp.Or(n, strings.Compare(a.GetName(), b.GetName()))
	})
	m.first = max(min(m.first, len(m.visible)-m.tableHeight()), 0)
}

func (m *fleetModel) key(k tea.KeyPressMsg) tea.Cmd {
	switch s := k.String(); {
	case s == "ctrl+c", s == "q" && !m.typing:
		return tea.Quit
	case s == "ctrl+z":
		return tea.Suspend
	case m.typing && s == "enter":
		m.typing = false
	case s == "esc":
		m.typing, m.filter.text = false, ""
	case m.typing:
		m.filter.key(k)
	default:
		m.tableKey(s)
	}
	m.arrange()
	return nil
}

func (m *fleetModel) tableKey(s string) {
	switch s {
	case "/":
		m.typing = true
	case "left", "<":
		m.sort = (m.sort + len(fleetColumns) - 1) % len(fleetColumns)
	case "right", ">":
		m.sort = (m.sort + 1) % len(fleetColumns)
	case "r":
		m.reverse = !m.reverse
	case "space", "p":
		if m.paused != nil {
			m.goOn()
		} else {
			m.paused = []*rdmadv1.WatchNodesResponse{}
		}
	default:
		m.first, _ = moved(s, m.first, len(m.visible), max(m.tableHeight()-1, 1))
	}
}

// tableHeight is how many nodes fit: the header has two lines, the headings and the keys one.
func (m *fleetModel) tableHeight() int { return max(m.height-4, 0) }

var fleetHints = []keyHint{{"↑↓", "scroll"}, {"/", "filter"}, {"←→", "sort"}, {"r", "reverse"}, {"space", "pause"}, {"q", "quit"}}

// View implements tea.Model.
func (m *fleetModel) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	v.WindowTitle = "rdmactl top --fleet " + terminal.Printable(m.o.Addr)
	return v
}

func (m *fleetModel) lines() []string {
	shown, widths := m.lay()
	out := []string{m.stateLine(), m.totalsLine(), m.headings(shown, widths)}
	for _, r := range m.visible[m.first:min(m.first+m.tableHeight(), len(m.visible))] {
		out = append(out, m.rowLine(r, shown, widths))
	}
	out = pad(out[:min(len(out), max(m.height-1, 0))], m.height-1)
	l := newLine(m.width)
	if m.typing {
		l.add(bold, "Filter: ").add(plain, m.filter.text).add(chosen, " ").add(faint, "  name, label=value; enter, esc")
	} else {
		l.hints(fleetHints)
	}
	out = append(out, l.String())
	return out[:min(len(out), max(m.height, 1))]
}

// stateLine says what is shown, or that rdmad is away.
func (m *fleetModel) stateLine() string {
	l := newLine(m.width)
	if m.away != nil {
		return l.add(bad.Bold(true), "no news since "+m.awaySince.Local().Format(time.TimeOnly)+", trying again: ").add(bad, m.o.Explain(m.away)).String()
	}
	l.add(title, "fleet")
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
	if m.filter.text != "" && !m.typing {
		l.add(warn, fmt.Sprintf("%d of ", len(m.visible)))
	}
	l.add(bold, plural(len(m.rows), "node")).add(plain, fmt.Sprintf("  %d up", up))
	l.add(plain, "  calls/s ").add(bold, rate(calls)).add(plain, "  errors/s ").add(bold, rate(errors)).add(plain, "  connections ").add(bold, count(conns))
	return l.add(plain, fmt.Sprintf("  drift %d  not healthy %d", drift, unwell)).String()
}

// lay chooses columns for the width.
func (m *fleetModel) lay() (shown, widths []int) {
	total := 0
	for i := range fleetColumns {
		w := lipgloss.Width(m.heading(i))
		for _, r := range m.visible {
			w = max(w, lipgloss.Width(terminal.Printable(fleetColumns[i].text(r))))
		}
		shown, widths = append(shown, i), append(widths, w)
		total += w + 1
	}
	for total > m.width {
		at := -1
		for i, c := range shown {
			if d := fleetColumns[c].drop; d > 0 && (at < 0 || d > fleetColumns[shown[at]].drop) {
				at = i
			}
		}
		if at < 0 {
			break
		}
		total -= widths[shown[at]] + 1
		shown = slices.Delete(shown, at, at+1)
	}
	return shown, widths
}

func (m *fleetModel) heading(i int) string {
	switch {
	case i != m.sort:
		return fleetColumns[i].title
	case m.reverse:
		return fleetColumns[i].title + "▴"
	}
	return fleetColumns[i].title + "▾"
}

func (m *fleetModel) headings(shown, widths []int) string {
	out := newLine(m.width)
	for _, i := range shown {
		style := bold
		if i == m.sort {
			style = title
		}
		out.add(plain, " ").add(style, padTo(m.heading(i), widths[i], fleetColumns[i].right))
	}
	return out.String()
}

func (m *fleetModel) rowLine(r *nodeRow, shown, widths []int) string {
	out := newLine(m.width)
	for _, i := range shown {
		out.add(plain, " ").add(m.cellStyle(i, r), padTo(fleetColumns[i].text(r), widths[i], fleetColumns[i].right))
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
