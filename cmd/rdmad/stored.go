package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// stored holds the settings in a state directory.
type stored struct {
	Path     string           `json:"path"`
	Revision uint32           `json:"revision"`
	Settings []storedValue    `json:"settings"`
	History  []*history.Entry `json:"history"` // the oldest first
}

type storedValue struct {
	Scope    settings.Scope `json:"scope"`
	Key      string         `json:"key"`
	Value    string         `json:"value"`
	Revision uint32         `json:"revision"` // that set it
}

func (s *state) show() (*stored, error) {
	c, err := statefile.Read(s.settings())
	if err != nil {
		return nil, err
	}
	r := &stored{Path: s.settings(), Revision: c.Revision, Settings: []storedValue{}, History: append([]*history.Entry{}, c.Entries...)}
	byName := func(a, b settings.Scope) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), strings.Compare(a.String(), b.String()))
	}
	for _, scope := range slices.SortedFunc(maps.Keys(c.Layers), byName) {
		l := c.Layers[scope]
		for _, k := range l.Values.Keys().Keys() {
			r.Settings = append(r.Settings, storedValue{scope, k.String(), l.Values.Format(k), l.Set[k]})
		}
	}
	return r, nil
}

func (r *stored) table(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "%s: revision %d\n\nSCOPE\tSETTING\tVALUE\tREVISION\n", r.Path, r.Revision)
	for _, v := range r.Settings {
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\n", v.Scope, v.Key, v.Value, v.Revision)
	}
	fmt.Fprint(out, "\nREVISION\tTIME\tBY\tFROM\tKIND\tSTATUS\tCOMMENT\n")
	for _, e := range slices.Backward(r.History) {
		fmt.Fprintf(out, "%d\t%s\t%q\t%q\t%s\t%s\t%q\n", e.Revision, e.Time.UTC().Format(time.RFC3339), e.Actor.Name, e.Actor.From, e.Kind, e.Status, e.Comment)
	}
	return out.Flush()
}

// checkedState holds the problems of the files in a state directory.
type checkedState struct {
	Files []checkedFile `json:"files"`
}

type checkedFile struct {
	Path    string `json:"path"`
	Problem string `json:"problem"` // "" without one
}

func (s *state) check() (r checkedState) {
	add := func(path string, err error) {
		f := checkedFile{Path: path}
		if err != nil {
			f.Problem = err.Error()
		}
		r.Files = append(r.Files, f)
	}
	c, err := statefile.Read(s.settings())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	} else if err == nil {
		err = suits(c)
	}
	if err == nil && c != nil && c.Elements != nil {
		var all spec.All
		if all, err = manager.Decode(c.Elements); err == nil {
			err = invalidStored(&all)
		}
	}
	add(s.settings(), err)
	for _, path := range []string{s.listeners(), s.connectors()} {
		all, err := manager.NewFile(path).Load()
		if err == nil {
			err = invalidStored(&all)
		}
		add(path, err)
	}
	return r
}

// invalidStored returns what rdmad would leave out at its start, or nil.
func invalidStored(all *spec.All) error {
	if problems := spec.StoredProblems(all); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; ") + "; rdmad starts without that: then unset, update or remove it with rdmactl")
	}
	return nil
}

// storedWarnings returns what rdmad would leave out of what operators stored.
func storedWarnings(path string) []string {
	all, err := (&state{path: path}).added()
	if err != nil {
		return nil // the start reports it
	}
	return spec.StoredProblems(&all)
}

// suits returns why rdmad would not start with stored settings, or nil.
func suits(c *statefile.Contents) error {
	_, err := settings.Builtin().Restore(c.Revision, c.File, c.Fleet, c.Layers)
	return err
}

func (r checkedState) table(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "FILE\tPROBLEM")
	for _, f := range r.Files {
		fmt.Fprintf(out, "%s\t%s\n", f.Path, cmp.Or(f.Problem, "none"))
	}
	return out.Flush()
}

// stateError means that a check found damage.
type stateError struct{ problem string }

func (e *stateError) Error() string { return "state: " + e.problem }

// problem returns the first problem as an error.
func (r checkedState) problem() error {
	for _, f := range r.Files {
		if f.Problem != "" {
			return &stateError{f.Problem}
		}
	}
	return nil
}

// unset makes e the next revision. It removes the keys that e unsets at its scope and that
// have a value there. doubt is why rdmad would still not start.
func (s *state) unset(e *history.Entry) (doubt, err error) {
	f, c, err := statefile.Open(s.settings())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var past history.Log
	for _, old := range c.Entries {
		past.Restore(old)
	}
	before := c.Layers[e.Scope]
	asked := e.Unset
	e.Unset &= before.Values.Keys()
	switch last := past.Find(c.Revision); {
	case e.Unset == 0:
		return nil, fmt.Errorf("%s is not set at %s: rdmad state show lists the stored settings", asked, e.Scope)
	case last != nil && last.Status == history.Pending && !time.Now().Before(last.Deadline):
		return nil, fmt.Errorf("revision %d was not confirmed until %s: rdmad takes it back when it starts; start it, then use rdmactl settings",
			last.Revision, last.Deadline.UTC().Format(time.RFC3339))
	case last != nil && last.Status == history.Pending:
		return nil, &desired.PendingError{Revision: last.Revision, Deadline: last.Deadline, Fleet: last.Kind == history.Fleet}
	case c.Revision == math.MaxUint32:
		return nil, &settings.LimitError{What: "revisions", Limit: math.MaxUint32}
	case len(e.Comment) > desired.MaxComment:
		return nil, fmt.Errorf("--comment: must be text of at most %d bytes", desired.MaxComment)
	}
	after := before
	for _, k := range e.Unset.Keys() {
		after.Values.Delete(k)
		after.Set[k] = 0
	}
	e.Revision, e.Time = c.Revision+1, time.Now().UTC().Round(0)
	e.Step.Deltas = []settings.Delta{{Scope: e.Scope, Before: before, After: after}}
	if err := f.Commit(&statefile.Record{Entry: e, Drop: past.Excess(e)}); err != nil {
		return nil, err
	}
	c.Layers[e.Scope] = after
	if after.Values.Keys() == 0 {
		delete(c.Layers, e.Scope)
	}
	return suits(c), nil
}

// storedListeners returns the names of the listeners and connectors that operators added, as
// far as the state directory can be read.
func storedListeners(path string) (names []string) {
	s := state{path: path}
	for _, load := range []func() (spec.All, error){s.added, manager.NewFile(s.connectors()).Load} { // the latter is an earlier rdmad's
		if saved, err := load(); err == nil {
			names = slices.Concat(names, config.NamesOf(saved.Listeners), config.NamesOf(saved.Connectors))
		}
	}
	return names
}
