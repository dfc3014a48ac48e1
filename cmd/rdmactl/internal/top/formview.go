package top

import (
	"fmt"

	"charm.land/lipgloss/v2"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func (m *model) formLines() []string {
	var out []string
	switch m.form.step {
	case choosing:
		out = m.choosingLines()
	case entering:
		out = m.enteringLines()
	default:
		out = m.resultLines()
	}
	if m.form.busy {
		out = append(out, newLine(m.width).add(faint, "Asking rdmad…").String())
	}
	for _, text := range wrap(m.form.err, m.width) {
		out = append(out, newLine(m.width).add(bad, text).String())
	}
	return out
}

// choosingLines is the list of settings at a scope.
func (m *model) choosingLines() []string {
	f := m.form
	head := newLine(m.width).add(title, "Change a setting").add(plain, " at ")
	for i, s := range f.scopes {
		style := faint
		if i == f.scope {
			style = chosen
		}
		head.add(style, " "+s+" ")
	}
	search := newLine(m.width).add(faint, "search: ").add(plain, f.search.text).add(chosen, " ")
	out := []string{head.String(), search.String()}
	found := f.found()
	if len(found) == 0 && !f.busy && f.err == "" {
		return append(out, newLine(m.width).add(faint, "No setting has that in its name").String())
	}
	height := max(m.bodyHeight()-4, 1)
	first := max(f.cursor-height+1, 0)
	for i := first; i < min(first+height, len(found)); i++ {
		out = append(out, m.settingLine(found[i], i == f.cursor))
	}
	return out
}

func (m *model) settingLine(v *rdmadv1.SettingValue, current bool) string {
	style, mark := plain, " "
	if current {
		style, mark = chosen, "▸"
	}
	return newLine(m.width).add(style, fmt.Sprintf("%s%s %s %s", mark, padTo(v.GetKey(), 28, false), padTo(v.GetValue(), 10, false),
		padTo(v.GetSource(), 24, false))).String()
}

// enteringLines is what is known of the setting, and its new value.
func (m *model) enteringLines() []string {
	f := m.form
	out := []string{newLine(m.width).add(title, f.key).add(plain, " at ").add(bold, f.at()).String()}
	about := f.about
	for _, text := range wrap(about.GetSummary(), m.width) {
		out = append(out, newLine(m.width).add(plain, text).String())
	}
	for _, p := range []pair{
		{"allowed   ", about.GetAllowed()},
		{"in force  ", about.GetTakesEffect()},
		{"now       ", now(about.GetValue())},
	} {
		if p.value != "" {
			out = append(out, newLine(m.width).add(faint, p.name).add(plain, p.value).String())
		}
	}
	return append(out, "", newLine(m.width).add(bold, "new value ").add(plain, f.input.text).add(chosen, " ").
		add(faint, "  or unset, to take what "+f.at()+" says away").String(), "")
}

func now(v *rdmadv1.SettingValue) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%s, from %s", v.GetValue(), v.GetSource())
}

var outcomes = []rdmadv1.Effect_Outcome{rdmadv1.Effect_APPLIED, rdmadv1.Effect_PENDING_RECONNECT, rdmadv1.Effect_UNSUPPORTED}

var outcomeStyles = map[rdmadv1.Effect_Outcome]lipgloss.Style{
	rdmadv1.Effect_APPLIED:           good,
	rdmadv1.Effect_PENDING_RECONNECT: warn,
	rdmadv1.Effect_UNSUPPORTED:       bad,
}

// resultLines are the effects of a dry run or a change on each connection.
func (m *model) resultLines() []string {
	f := m.form
	head := newLine(m.width).add(title, f.key+"="+f.input.text).add(plain, " at ").add(bold, f.at())
	if f.step == looking {
		head.add(warn, fmt.Sprintf("  dry run, still revision %d", f.revision))
	} else {
		head.add(good, fmt.Sprintf("  done: revision %d", f.result.GetRevision()))
	}
	effects := f.result.GetEffects()
	out := []string{head.String(), m.outcomeCounts(effects), ""}
	first := max(min(f.scroll, len(effects)-1), 0)
	for _, e := range effects[first:] {
		if len(out) >= m.bodyHeight() {
			break
		}
		out = append(out, m.effectLines(e)...)
	}
	return out
}

// effectLines is what happens to a connection; a long reason goes on below.
func (m *model) effectLines(e *rdmadv1.Effect) (out []string) {
	l := newLine(m.width).add(plain, fmt.Sprintf("connection %-6s ", terminal.Printable(e.GetConnectionId()))).
		add(outcomeStyles[e.GetOutcome()], fmt.Sprintf("%-17s ", e.GetOutcome()))
	indent := min(l.used, m.width/2)
	for _, text := range wrap(e.GetReason(), max(m.width-l.used, m.width/2)) {
		out = append(out, l.add(faint, text).String())
		l = newLine(m.width).to(indent)
	}
	if out == nil {
		out = []string{l.String()}
	}
	return out
}

// outcomeCounts is how many connections have which outcome.
func (m *model) outcomeCounts(effects []*rdmadv1.Effect) string {
	counts := map[rdmadv1.Effect_Outcome]int{}
	for _, e := range effects {
		counts[e.GetOutcome()]++
	}
	l := newLine(m.width).add(plain, plural(len(effects), "connection")+" in the scope")
	for _, o := range outcomes {
		if counts[o] > 0 {
			l.add(plain, "  ").add(outcomeStyles[o], fmt.Sprintf("%s %d", o, counts[o]))
		}
	}
	return l.String()
}
