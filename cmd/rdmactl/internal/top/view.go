package top

import tea "charm.land/bubbletea/v2"

// View implements tea.Model.
func (m *model) View() tea.View { return m.shown("rdmactl top", m.lines()) }

// lines are the screen: header, body, and one line for keys and questions.
func (m *model) lines() []string {
	if m.help {
		return append(pad(window(m.helpLines(), m.helpScroll, m.height-1), m.height-1), m.footer())
	}
	out := pad(m.header(), m.headerHeight())
	out = append(out, pad(m.body(), m.bodyHeight())...)
	out = append(out, m.footer())
	return out[:min(len(out), max(m.height, 1))]
}

// pad is exactly height lines.
func pad(lines []string, height int) []string {
	out := make([]string, max(height, 0))
	copy(out, lines)
	return out
}

// bodyHeight is how many lines are between header and footer.
func (m *model) bodyHeight() int { return max(m.height-m.headerHeight()-1, 0) }

func (m *model) body() []string {
	switch {
	case m.form != nil:
		return m.formLines()
	case m.pane != nil:
		return window(m.paneLines(), m.pane.scroll, m.bodyHeight())
	}
	return m.tableLines()
}

// window is the part of lines that can be seen.
func window(lines []string, from, height int) []string {
	height = max(height, 0)
	from = max(min(from, len(lines)-height), 0)
	return lines[from:min(from+height, len(lines))]
}

// keyHint is a key and what it does.
type keyHint struct{ key, does string }

var (
	tableHints = []keyHint{{"?", "help"}, {"↑↓", "choose"}, {"enter", "details"}, {"s", "set"}, {"/", "filter"},
		{"←→", "sort"}, {"r", "reverse"}, {"space", "pause"}, {"d", "drain"}, {"x", "close"}, {"q", "quit"}}
	paneHints   = []keyHint{{"esc", "back"}, {"↑↓", "scroll"}, {"s", "set"}, {"d", "drain"}, {"x", "close"}, {"space", "pause"}, {"?", "help"}, {"q", "quit"}}
	helpHints   = []keyHint{{"↑↓", "scroll"}, {"any other key", "back"}}
	chooseHints = []keyHint{{"enter", "choose"}, {"↑↓", "move"}, {"tab", "scope"}, {"type", "search"}, {"esc", "cancel"}}
	enterHints  = []keyHint{{"enter", "dry run"}, {"tab", "next value"}, {"esc", "back"}}
	lookHints   = []keyHint{{"enter", "make the change"}, {"↑↓", "scroll"}, {"esc", "back"}}
	overHints   = []keyHint{{"esc", "back"}}
	doneHints   = []keyHint{{"enter", "done"}, {"↑↓", "scroll"}}
)

// footer is the last line: a question, what is typed, news, or keys.
func (m *model) footer() string {
	l := newLine(m.width)
	switch {
	case m.help:
		l.hints(helpHints)
	case m.confirm != nil:
		l.add(warn.Bold(true), m.confirm.question())
	case m.notice.text != "" && m.notice.bad:
		l.add(bad, m.notice.text)
	case m.notice.text != "":
		l.add(good, m.notice.text)
	case m.form != nil && m.form.over:
		l.hints(overHints)
	case m.form != nil:
		l.hints([...][]keyHint{chooseHints, enterHints, lookHints, doneHints}[m.form.step])
	case m.typing:
		m.typed(l, "id, listener, peer, service")
	case m.pane != nil:
		l.hints(paneHints)
	default:
		l.hints(tableHints)
	}
	return l.String()
}

func (l *line) hints(all []keyHint) {
	for i, h := range all {
		if i > 0 {
			l.add(plain, "  ")
		}
		l.add(hotkey, h.key).add(faint, " "+h.does)
	}
}
