package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// screen is what the views of one rdmad and of a fleet have in common.
type screen[R any] struct {
	o             *Options
	width, height int
	away          error // why rdmad or etcd don't answer
	awaySince     time.Time
	table[R]
	filter field
	typing bool // a filter
}

// newScreen makes a screen with a table in the order that the options name.
func newScreen[R any](columns []column[R], o *Options) screen[R] {
	t := table[R]{columns: columns, sort: max(slices.Index(namesOf(columns), o.Sort), 0), reverse: o.Reverse}
	return screen[R]{o: o, width: 80, height: 24, table: t, filter: field{text: o.Filter}}
}

// Init implements tea.Model. The feed runs already.
func (s *screen[R]) Init() tea.Cmd { return nil }

// took takes a message about the screen itself.
func (s *screen[R]) took(msg tea.Msg) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case offline:
		if s.away == nil {
			s.awaySince = s.o.Lost(msg.err, msg.at)
		}
		s.away = msg.err
	}
}

// orderKey begins a filter or changes the order of the table, if the key is for that.
func (s *screen[R]) orderKey(key string) bool {
	switch key {
	case "/":
		s.typing = true
	case "left", "<":
		s.sortBy(s.sort - 1)
	case "right", ">":
		s.sortBy(s.sort + 1)
	case "r":
		s.reverse = !s.reverse
	default:
		return false
	}
	return true
}

// filterKey is a key while a filter is typed.
func (s *screen[R]) filterKey(k tea.KeyPressMsg) {
	switch k.String() {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.filter.text = false, ""
	default:
		s.filter.key(k)
	}
}

// matches says whether the filter lets a row with some texts through.
func (s *screen[R]) matches(texts ...string) bool {
	want := strings.ToLower(s.filter.text)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), want) })
}

// typed is the last line while a filter is typed, which looks at some fields.
func (s *screen[R]) typed(l *line, fields string) {
	l.add(bold, "Filter: ").add(plain, s.filter.text).add(chosen, " ").add(faint, "  "+fields+"; enter, esc")
}

// filtered begins a line with the number of rows that a filter lets through.
func (s *screen[R]) filtered(l *line) {
	if s.filter.text != "" && !s.typing {
		l.add(warn, fmt.Sprintf("%d of ", len(s.visible)))
	}
}

// awayLine says since when there is no answer, and why.
func (s *screen[R]) awayLine(what string) string {
	return newLine(s.width).add(bad.Bold(true), what+" since "+s.awaySince.Local().Format(time.TimeOnly)+", trying again: ").add(bad, s.o.Explain(s.away)).String()
}

// shown is a view of lines.
func (s *screen[R]) shown(command string, lines []string) tea.View {
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = command + " " + terminal.Printable(s.o.Addr)
	return v
}
