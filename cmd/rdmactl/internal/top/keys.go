package top

import (
	tea "charm.land/bubbletea/v2"
)

// tableKey is a key for the table.
func (m *model) tableKey(s string) tea.Cmd {
	switch s {
	case "enter":
		return m.openPane()
	case "esc":
		m.filter.text = ""
	default:
		if m.move(s) {
			return nil
		}
		if !m.orderKey(s) {
			return m.commonKey(s)
		}
	}
	m.arrange()
	return nil
}

// commonKey is a key that means the same in the table and in a pane.
func (m *model) commonKey(s string) tea.Cmd {
	switch s {
	case "space", "p":
		if m.paused {
			m.goOn()
			return m.loadPane()
		}
		m.paused = true
	case "s":
		return m.openForm()
	case "d":
		m.askEnd(drain)
	case "x":
		m.askEnd(cut)
	}
	return nil
}

// move moves the cursor if the key is for that.
func (m *model) move(s string) bool {
	page := max(m.tableHeight()-1, 1)
	to, ok := moved(s, m.cursor, len(m.visible), page)
	if ok {
		m.cursor, m.moved = to, true
	}
	return ok
}

// moved is where a key takes a cursor within n lines.
func moved(key string, at, n, page int) (to int, ok bool) {
	switch key {
	case "up", "k":
		at--
	case "down", "j":
		at++
	case "pgup", "ctrl+b":
		at -= page
	case "pgdown", "ctrl+f":
		at += page
	case "home", "g":
		at = 0
	case "end", "G":
		at = n - 1
	default:
		return at, false
	}
	return max(min(at, n-1), 0), true
}

// field is a text being typed.
type field struct{ text string }

// longestField bounds it, in bytes.
const longestField = 256

// key changes the text, if the key does.
func (f *field) key(k tea.KeyPressMsg) {
	switch k.String() {
	case "backspace", "ctrl+h":
		if r := []rune(f.text); len(r) > 0 {
			f.text = string(r[:len(r)-1])
		}
	case "ctrl+u":
		f.text = ""
	default:
		f.insert(k.Text)
	}
}

// insert appends what can be printed.
func (f *field) insert(text string) {
	for _, r := range text {
		if r >= ' ' && r != 0x7f && len(f.text) < longestField {
			f.text += string(r)
		}
	}
}
