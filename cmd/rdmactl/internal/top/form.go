package top

import (
	"net/netip"
	"strings"

	tea "charm.land/bubbletea/v2"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// form changes a setting, step by step. Each question to rdmad has a number;
// an answer to any but the latest is not wanted any more.
type form struct {
	scopes []string
	scope  int
	step   step
	asked  int  // number of the question that is out
	busy   bool // it is
	err    string
	over   bool // rdmad has restarted since

	values []*rdmadv1.SettingValue // at the scope
	search field
	cursor int // in found()

	key    string
	about  *rdmadv1.ExplainSettingResponse
	input  field
	choice int // last value that tab proposed, -1 before

	result   *rdmadv1.SetSettingsResponse // of the dry run, then of the change
	scroll   int
	revision uint32 // that the dry run was about
}

type step int

const (
	choosing step = iota // a key
	entering             // its value
	looking              // at the dry run
	finished             // in force
)

// formAnswer is an answer; the one that was asked for isn't nil.
type formAnswer struct {
	asked  int
	values *rdmadv1.GetSettingsResponse
	about  *rdmadv1.ExplainSettingResponse
	result *rdmadv1.SetSettingsResponse
	dryRun bool
	text   string // of the value that the dry run was about
	err    error
}

// openForm begins with the narrowest scope of the connection at the cursor.
func (m *model) openForm() tea.Cmd {
	f := &form{choice: -1}
	r := m.rows[m.current()]
	if r == nil && m.pane != nil {
		r = m.pane.row
	}
	if r != nil {
		f.scopes = append(f.scopes, "connection/"+r.id)
		if r.listener != "" {
			f.scopes = append(f.scopes, "listener/"+r.listener)
		}
		if peer, err := netip.ParseAddrPort(r.peer); err == nil {
			f.scopes = append(f.scopes, "peer/"+peer.Addr().Unmap().WithZone("").String())
		}
	}
	f.scopes = append(f.scopes, "global")
	m.form = f
	return m.askValues()
}

// ask sends a question and forgets what was asked before.
func (m *model) ask(question func() formAnswer) tea.Cmd {
	f := m.form
	m.asked++
	f.asked, f.busy, f.err = m.asked, true, ""
	number := m.asked
	return func() tea.Msg {
		a := question()
		a.asked = number
		return a
	}
}

func (m *model) askValues() tea.Cmd {
	scope := m.form.at()
	return m.ask(func() (a formAnswer) {
		a.values, a.err = m.control.settings(scope)
		return a
	})
}

func (m *model) askAbout() tea.Cmd {
	key, scope := m.form.key, m.form.at()
	return m.ask(func() (a formAnswer) {
		a.about, a.err = m.control.about(key, scope)
		return a
	})
}

// askSet asks for a dry run, or for the change that the dry run showed: not
// if something else changed since.
func (m *model) askSet(dryRun bool) tea.Cmd {
	f := m.form
	if m.away != nil { // the next rdmad may have another connection of this id
		f.step, f.err = entering, "no change while rdmad is away"
		return nil
	}
	set, unset, err := m.o.Assign([]string{f.key + "=" + strings.TrimSpace(f.input.text)})
	if err != nil {
		f.err = m.o.Explain(err)
		return nil
	}
	req := &rdmadv1.SetSettingsRequest{Scope: f.at(), Settings: set, Unset: unset, DryRun: dryRun}
	if !dryRun {
		revision := f.revision
		req.ExpectedRevision, req.Comment = &revision, "rdmactl top"
	}
	text := f.input.text
	return m.ask(func() formAnswer {
		res, err := m.control.set(req)
		return formAnswer{result: res, dryRun: dryRun, text: text, err: err}
	})
}

// formAnswered takes an answer to the form's latest question.
func (m *model) formAnswered(a formAnswer) tea.Cmd {
	f := m.form
	if f == nil || a.asked != f.asked {
		return nil
	}
	f.busy = false
	switch {
	case a.dryRun && (f.step != entering || a.text != f.input.text): // the user went on
	case a.err != nil:
		f.err = m.o.Explain(a.err)
		if f.step == looking { // to be tried anew from the value
			f.step = entering
		}
	case a.values != nil:
		f.values = a.values.GetValues()
	case a.about != nil:
		f.about = a.about
	case a.dryRun:
		f.step, f.result, f.revision, f.scroll = looking, a.result, a.result.GetRevision(), 0
	default:
		f.step, f.result, f.scroll = finished, a.result, 0
		return m.loadPane()
	}
	return nil
}

// at is the scope to change.
func (f *form) at() string { return f.scopes[f.scope] }

// field is the text being typed.
func (f *form) field() *field {
	switch f.step {
	case choosing:
		return &f.search
	case entering:
		return &f.input
	}
	return nil
}

// found are the settings whose name has what was typed.
func (f *form) found() (out []*rdmadv1.SettingValue) {
	for _, v := range f.values {
		if strings.Contains(v.GetKey(), strings.ToLower(f.search.text)) {
			out = append(out, v)
		}
	}
	return out
}
