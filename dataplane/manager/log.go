package manager

import (
	"reflect"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// The messages are constant texts, because log lines are counted by message.

func (s *set[S, L]) logAdded(one *S) {
	args := attributes(s.what, one)
	switch s.what {
	case "service":
		s.m.log.Info("service added", args...)
	case "listener":
		s.m.log.Info("listener added", args...)
	case "connector":
		s.m.log.Info("connector added", args...)
	}
}

func (s *set[S, L]) logChanged(one *S, ended int) {
	args := append(attributes(s.what, one), "ended", ended)
	switch s.what {
	case "service":
		s.m.log.Info("service changed", args...)
	case "listener":
		s.m.log.Info("listener changed", args...)
	case "connector":
		s.m.log.Info("connector changed", args...)
	}
}

func (s *set[S, L]) logRemoved(name string, r dataplane.Removed) {
	args := []any{s.what, name, "drained", r.Drained, "cut", r.Cut}
	switch s.what {
	case "service":
		s.m.log.Info("service removed", args...)
	case "listener":
		s.m.log.Info("listener removed", args...)
	case "connector":
		s.m.log.Info("connector removed", args...)
	}
}

func (s *set[S, L]) logNotBroughtBack(name string, err error) {
	switch s.what {
	case "service":
		s.m.log.Error("service not brought back", s.what, name, "error", err)
	case "listener":
		s.m.log.Error("listener not brought back", s.what, name, "error", err)
	case "connector":
		s.m.log.Error("connector not brought back", s.what, name, "error", err)
	}
}

// attributes returns the name and all fields that are set.
func attributes(what string, one any) []any {
	var args []any
	root := reflect.ValueOf(one)
	for f := range spec.Fields(root.Type().Elem()) {
		switch v := f.In(root, false); {
		case !v.IsValid() || v.IsZero() || f.Section():
		case f.Path == "name":
			args = append(args, what, v.String())
		default:
			args = append(args, f.Path, spec.Text(v))
		}
	}
	return args
}
