package top

import (
	tea "charm.land/bubbletea/v2"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// pane shows one connection.
type pane struct {
	id       string
	conn     *rdmadv1.GetConnectionResponse // nil before the first answer
	settings *rdmadv1.GetSettingsResponse
	err      error // of the last answer
	loading  bool
	row      *row // its rates
	scroll   int
}

func (m *model) openPane() tea.Cmd {
	id := m.current()
	if id == "" {
		return nil
	}
	m.moved = true
	m.pane = &pane{id: id}
	return m.loadPane()
}

// loadPane asks for what the open pane shows, if there is one and it has no
// question out.
func (m *model) loadPane() tea.Cmd {
	p := m.pane
	if p == nil {
		return nil
	}
	if r := m.rows[p.id]; r != nil {
		p.row = r
	}
	if p.loading {
		return nil
	}
	p.loading = true
	id, c := p.id, m.control
	return func() tea.Msg { return c.detail(id) }
}

// paneLoaded takes an answer. The last values of a connection that is down
// stay.
func (m *model) paneLoaded(d detail) {
	p := m.pane
	if p == nil || p.id != d.id {
		return
	}
	p.loading, p.err = false, d.err
	if d.err == nil {
		p.conn, p.settings = d.conn, d.settings
	}
}

func (m *model) paneKey(s string) tea.Cmd {
	switch s {
	case "esc", "enter", "backspace", "left":
		m.pane = nil
		m.arrange()
		return nil
	}
	lines, height := len(m.paneLines()), m.bodyHeight()
	if to, ok := moved(s, m.pane.scroll, max(lines-height+1, 1), max(height-1, 1)); ok {
		m.pane.scroll = to
		return nil
	}
	return m.commonKey(s)
}
