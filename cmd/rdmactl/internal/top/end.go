package top

import (
	"fmt"

	tea "charm.land/bubbletea/v2"
)

// confirm is a question before a connection is ended.
type confirm struct {
	id  string
	how ending
}

// ended says that a connection was ended, or why not.
type ended struct {
	confirm
	err error
}

func (h ending) verb() string {
	if h == drain {
		return "drain"
	}
	return "close"
}

// askEnd asks before the connection is ended.
func (m *model) askEnd(how ending) {
	if id := m.current(); id != "" {
		m.confirm = &confirm{id, how}
	}
}

func (c *confirm) question() string {
	if c.how == drain {
		return fmt.Sprintf("Drain connection %s? Calls in flight finish, then it is disconnected. y/n", c.id)
	}
	return fmt.Sprintf("Close connection %s? Answers to calls in flight are lost. y/n", c.id)
}

func (m *model) confirmKey(s string) tea.Cmd {
	c := *m.confirm
	switch s {
	case "y", "Y":
		m.confirm = nil
		if m.away != nil { // the next rdmad may have another connection of this id
			m.notice = notice{text: fmt.Sprintf("Connection %s: no %s while rdmad is away.", c.id, c.how.verb()), bad: true}
			return nil
		}
		m.notice = notice{text: fmt.Sprintf("Connection %s: %s asked for…", c.id, c.how.verb())}
		return func() tea.Msg { return ended{c, m.control.end(c.id, c.how)} }
	case "n", "N", "esc", "enter":
		m.confirm = nil
	}
	return nil
}

func (m *model) connectionEnded(e ended) {
	if e.err != nil {
		m.notice = notice{text: fmt.Sprintf("Connection %s: %s failed: %s", e.id, e.how.verb(), m.o.Explain(e.err)), bad: true}
		return
	}
	m.notice = notice{text: fmt.Sprintf("Connection %s: %s done.", e.id, e.how.verb())}
}
