package manager

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// base returns the element of a name in the file, or nil. The caller holds op.
func (s *set[S, L]) base(name string) *S {
	if s.m.file == nil {
		return nil
	}
	all := *s.list(s.m.file)
	if i := slices.IndexFunc(all, func(one S) bool { return one.Called() == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// changedSpec returns an element as an operator wants it. unset selects the fields that get
// the file's values back first. The error is that of spec.Check, or says that there is nothing to
// unset.
func (s *set[S, L]) changedSpec(t *thing[S], change func(*S), unset func(*spec.Field) bool) (now S, err error) {
	now = copied(t.spec)
	if unset != nil {
		if t.origin != FromFile {
			return now, &InvalidError{Field: "unset", Text: fmt.Sprintf("%s %s is not in the configuration file, so the file has no values for it", s.what, t.spec.Called())}
		}
		spec.Copy(&now, s.base(t.spec.Called()), unset)
	}
	change(&now)
	forEmpty(&now)
	return now, spec.Check(&now)
}

// forEmpty makes empty lists nil, as in a specification that was stored.
func forEmpty(one any) {
	root := reflect.ValueOf(one)
	for f := range spec.Fields(root.Type().Elem()) {
		if v := f.In(root, false); v.IsValid() && v.Kind() == reflect.Slice && v.Len() == 0 {
			v.SetZero()
		}
	}
}

// noteChangeLocked notes in which fields an element differs from the file's.
func (s *set[S, L]) noteChangeLocked(now *S) {
	name := (*now).Called()
	delete(s.changed, name)
	if d := spec.Difference(s.base(name), now); len(d) > 0 {
		s.changed[name] = d
	}
}

// overLocked returns an element of the file with what operators changed of it.
func (s *set[S, L]) overLocked(one S) (S, error) {
	d := s.changed[one.Called()]
	if d == nil {
		return one, nil
	}
	one = copied(one)
	if err := d.Apply(&one); err != nil {
		return one, &InvalidError{Field: "changed", Text: err.Error()}
	}
	return one, spec.Check(&one)
}

// failedOfFile reports whether an element of the file could not be had at the start as an
// operator had changed it.
func (t *thing[S]) failedOfFile() bool { return t.state == StateFailed && t.origin == FromFile }
