package manager

import (
	"strings"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// Exported is everything that is in service, in the form of a configuration file.
type Exported struct {
	spec.All // each list by name
	Limits   spec.Limits
	// LeftOut names the elements that are not in service, each with the reason.
	LeftOut []string
}

// Export returns everything that is in service: the file's elements and limits with the changes
// of operators, and additions. All of it is of one moment.
func (m *Manager) Export() (out Exported) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups() {
		g.exportLocked(&out)
	}
	out.Limits, _ = m.limits.over(&m.limits.file) // the start would have failed
	return out
}

func (s *set[S, L]) exportLocked(out *Exported) {
	list := s.list(&out.All)
	for _, name := range sortedKeys(s.things) {
		label := s.what + " " + name + ": "
		switch t := s.things[name]; t.state {
		case StateUp:
			*list = append(*list, t.spec)
		case StateFailed:
			out.LeftOut = append(out.LeftOut, label+strings.TrimPrefix(t.failure, label))
		default:
			out.LeftOut = append(out.LeftOut, label+"is being removed")
		}
	}
}
