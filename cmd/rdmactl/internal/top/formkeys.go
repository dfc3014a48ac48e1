package top

import (
	tea "charm.land/bubbletea/v2"
)

// formKey is a key for the form. Esc goes back a step.
func (m *model) formKey(k tea.KeyPressMsg) tea.Cmd {
	if m.form.over && k.String() != "esc" {
		return nil
	}
	switch m.form.step {
	case choosing:
		return m.choosingKey(k)
	case entering:
		return m.enteringKey(k)
	case looking:
		return m.lookingKey(k.String())
	}
	return m.finishedKey(k.String())
}

func (m *model) choosingKey(k tea.KeyPressMsg) tea.Cmd {
	f := m.form
	found := f.found()
	switch s := k.String(); s {
	case "esc":
		m.form = nil
	case "tab", "shift+tab":
		turn := 1
		if s == "shift+tab" {
			turn = len(f.scopes) - 1
		}
		f.scope = (f.scope + turn) % len(f.scopes)
		return m.askValues()
	case "enter":
		if f.cursor < len(found) && !f.busy {
			f.step, f.key, f.about, f.input, f.choice = entering, found[f.cursor].GetKey(), nil, field{}, -1
			return m.askAbout()
		}
	case "up", "down", "pgup", "pgdown", "home", "end":
		f.cursor, _ = moved(s, f.cursor, len(found), max(m.bodyHeight()-4, 1))
	default:
		f.search.key(k)
		f.cursor = 0
	}
	return nil
}

func (m *model) enteringKey(k tea.KeyPressMsg) tea.Cmd {
	f := m.form
	switch k.String() {
	case "esc":
		f.step, f.err = choosing, ""
	case "enter":
		if !f.busy && f.input.text != "" {
			return m.askSet(true)
		}
	case "tab":
		if values := m.o.Values(f.key); len(values) > 0 {
			f.choice = (f.choice + 1) % len(values)
			f.input.text = values[f.choice]
		}
	default:
		f.input.key(k)
		f.err = ""
	}
	return nil
}

func (m *model) lookingKey(s string) tea.Cmd {
	f := m.form
	switch s {
	case "esc", "n":
		f.step = entering
	case "enter", "y":
		if !f.busy {
			return m.askSet(false)
		}
	default:
		f.scrollBy(s, m.bodyHeight())
	}
	return nil
}

func (m *model) finishedKey(s string) tea.Cmd {
	switch s {
	case "esc", "enter", "q":
		m.form = nil
		return m.loadPane()
	}
	m.form.scrollBy(s, m.bodyHeight())
	return nil
}

func (f *form) scrollBy(key string, height int) {
	f.scroll, _ = moved(key, f.scroll, len(f.result.GetEffects()), max(height-5, 1))
}
