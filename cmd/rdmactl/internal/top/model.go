package top

import (
	"slices"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/proto"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// row is a connection in the table.
type row struct {
	id, listener, peer, service string
	draining                    bool
	rates                       *rdmadv1.Rates
	credits, busy               uint32
	errors                      float64
	calls, bytes                history
}

// model is all that the view shows. Its fields are Update's to change.
type model struct {
	screen[*row]
	control control

	status    *rdmadv1.GetStatusResponse
	listeners []*rdmadv1.ListenerSample
	total     *rdmadv1.Rates
	calls     history // of everything, per second
	bytes     history
	rows      map[string]*row // all connections

	paused bool
	held   []snapshot // what came meanwhile, the latest of it

	cursor int  // in visible
	moved  bool // the user chose a row: the cursor stays with it
	first  int  // row at the top of the table

	notice     notice
	help       bool
	helpScroll int
	pane       *pane
	form       *form
	confirm    *confirm
	asked      int // questions to rdmad so far
}

// notice is a line for the user until the next key.
type notice struct {
	text string
	bad  bool
}

func newModel(o *Options, c control) *model {
	return &model{screen: newScreen(columns, o), control: c, rows: map[string]*row{}}
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m.took(msg)
	switch msg := msg.(type) {
	case snapshot:
		m.away = nil
		if m.paused && !m.restarted(msg) {
			m.held = latest(m.held, msg)
			return m, nil
		}
		m.goOn() // a pause would show connections that are not there any more
		m.take(msg)
		return m, m.loadPane()
	case detail:
		m.paneLoaded(msg)
	case ended:
		m.connectionEnded(msg)
	case formAnswer:
		return m, m.formAnswered(msg)
	case tea.PasteMsg:
		if f := m.field(); f != nil {
			f.insert(msg.Content)
			m.arrange()
		}
	case tea.KeyPressMsg:
		m.notice = notice{}
		return m, m.key(msg)
	}
	return m, nil
}

// key gives a key to what is in front.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	switch s := k.String(); {
	case s == "ctrl+c":
		return tea.Quit
	case s == "ctrl+z":
		return tea.Suspend
	case m.help:
		m.helpScroll, m.help = moved(s, m.helpScroll, max(len(m.helpLines())-m.height+2, 1), max(m.height-2, 1))
		return nil
	case m.confirm != nil:
		return m.confirmKey(s)
	case m.form != nil:
		return m.formKey(k)
	case m.typing:
		m.filterKey(k)
		m.arrange()
		return nil
	case s == "q":
		return tea.Quit
	case s == "?":
		m.help, m.helpScroll = true, 0
		return nil
	case m.pane != nil:
		return m.paneKey(s)
	default:
		return m.tableKey(s)
	}
}

// field is the text being typed, nil when none is.
func (m *model) field() *field {
	switch {
	case m.form != nil:
		return m.form.field()
	case m.typing:
		return &m.filter
	}
	return nil
}

// goOn shows what came during a pause.
func (m *model) goOn() {
	m.paused = false
	for _, s := range m.held {
		m.take(s)
	}
	m.held = nil
}

// restarted says whether a snapshot is of another rdmad than the one that is shown. Ids of connections begin again there.
func (m *model) restarted(s snapshot) bool {
	return !proto.Equal(m.status.GetStarted(), s.status.GetStarted())
}

// take makes a snapshot the one that is shown.
func (m *model) take(s snapshot) {
	if m.restarted(s) {
		m.rows, m.listeners, m.total = nil, nil, nil
		m.pane, m.confirm = nil, nil
		if m.form != nil { // stays, since what is typed would go to the table, where d and y drain
			m.form = &form{scopes: []string{"global"}, choice: -1, err: "rdmad has restarted: esc, then choose again", over: true}
		}
	}
	m.status = s.status
	if s.sample != nil {
		m.listeners, m.total = s.sample.GetListeners(), s.sample.GetTotal()
		m.calls.add(m.total.GetCalls())
		m.bytes.add(m.total.GetBytesReceived() + m.total.GetBytesSent())
	}
	samples := make(map[string]*rdmadv1.ConnectionSample, len(s.conns))
	for _, c := range s.sample.GetConnections() {
		samples[c.GetId()] = c
	}
	rows := make(map[string]*row, len(s.conns))
	for _, c := range s.conns {
		r := m.rows[c.GetId()]
		if r == nil {
			r = &row{id: c.GetId()}
		}
		r.take(c, samples[r.id])
		rows[r.id] = r
	}
	m.rows = rows
	m.arrange()
}

// take is a connection as it is now. The sample, which may be missing, was
// taken just before it was listed.
func (r *row) take(c *rdmadv1.Connection, sample *rdmadv1.ConnectionSample) {
	r.listener, r.peer, r.service = c.GetListener(), c.GetPeer(), c.GetService()
	r.draining = c.GetState() == rdmadv1.Connection_DRAINING
	r.errors, r.credits, r.busy = c.GetErrors(), c.GetCreditsGranted(), c.GetCallsInProgress()
	if sample == nil {
		return
	}
	r.rates, r.credits, r.busy = sample.GetRates(), sample.GetCreditsGranted(), sample.GetCallsInProgress()
	r.calls.add(r.rates.GetCalls())
	r.bytes.add(r.rates.GetBytesReceived() + r.rates.GetBytesSent())
}

// arrange filters and sorts the rows, and keeps the cursor on its connection.
func (m *model) arrange() {
	id := m.current()
	m.visible = m.visible[:0]
	for _, r := range m.rows {
		if m.matches(r.id, r.listener, r.peer, r.service) {
			m.visible = append(m.visible, r)
		}
	}
	m.sortRows(byID)
	if i := slices.IndexFunc(m.visible, func(r *row) bool { return r.id == id }); i >= 0 && m.moved {
		m.cursor = i
	}
	m.cursor = max(min(m.cursor, len(m.visible)-1), 0)
}

// current is the id of the connection at the cursor, or in the pane; "" when
// there is none.
func (m *model) current() string {
	switch {
	case m.pane != nil:
		return m.pane.id
	case m.cursor < len(m.visible):
		return m.visible[m.cursor].id
	}
	return ""
}
