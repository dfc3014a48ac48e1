// Package provenance tells, without a running rdmad, which live settings it
// would have with a configuration, and where each comes from: the built-in
// default, a line of the file, or what operators stored over it.
package provenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Report is what a configuration comes to.
type Report struct {
	File      string `json:"file"`
	Listeners int    `json:"listeners"`
	Services  int    `json:"services"`
	// Connectors are left out of the text when there are none.
	Connectors int    `json:"connectors"`
	Memory     Memory `json:"memory"`
	// Unreachable lists limits that need more open files than a process may have
	// here, a line each.
	Unreachable []string `json:"unreachable_limits"`
	State       State    `json:"state"`
	// Configuration is everything but the live settings.
	Configuration []Configured `json:"configuration"`
	// Settings are all there are, at the global scope.
	Settings []Value `json:"settings"`
	// Scopes are what listener and peer scopes have stored over that.
	Scopes []Scoped `json:"scopes"`
}

// Memory is the limit of the process's memory, in bytes.
type Memory struct {
	Limit   int64  `json:"limit"`   // in force, in this control group
	Source  string `json:"source"`  // default, limits.memory or cgroup
	Asked   int64  `json:"asked"`   // by limits.memory, or the default
	Warning string `json:"warning"` // why Limit is less than Asked, and what to do
}

// State is the file of the stored settings.
type State struct {
	Path     string `json:"path"`
	Read     bool   `json:"read"`     // false when there is none
	Problem  string `json:"problem"`  // why it wasn't read; "" when that is as it should be
	Revision uint32 `json:"revision"` // of the stored settings
	// Pending is the revision that waits to be confirmed, until Deadline; 0
	// without one.
	Pending  uint32 `json:"pending"`
	Deadline string `json:"deadline"`
}

// Configured is a value of the configuration and where it comes from.
type Configured struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // default, FILE:LINE, an environment variable or a flag
}

// Value is a setting and where it comes from.
type Value struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Source   string `json:"source"`   // default, config or global
	Detail   string `json:"detail"`   // FILE:LINE of config, else ""
	Revision uint32 `json:"revision"` // that set it; 0 for default and config
	// Over is what the file says when something stored wins over it, else "".
	Over string `json:"over"`
}

// Scoped is a stored setting of a narrower scope.
type Scoped struct {
	Scope    string `json:"scope"`
	Key      string `json:"key"`
	Value    string `json:"value"`
	Revision uint32 `json:"revision"`
}

// Make reads the stored settings of a configuration, whether its rdmad runs or
// not. Its errors are those for which rdmad would not start.
func Make(c *config.Config, stored string) (*Report, error) {
	r := &Report{
		File: c.File, Listeners: len(c.Listeners), Services: len(c.Services), Connectors: len(c.Connectors), State: State{Path: stored},
		Settings: []Value{}, Scopes: []Scoped{}, Unreachable: []string{},
	}
	for _, v := range c.Values() {
		r.Configuration = append(r.Configuration, Configured{v.Key, v.Value, v.From.String()})
	}
	defaults := rpcrdma.DefaultSettings()
	state, err := settings.NewState(live.Of(&defaults), 0)
	if err != nil {
		return nil, err
	}
	contents, err := statefile.Read(stored)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case errors.Is(err, os.ErrPermission):
		r.State.Problem = err.Error()
	case err != nil:
		return nil, err
	default:
		if state, err = r.restore(state, contents); err != nil {
			return nil, err
		}
	}
	if contents == nil || contents.Seen != c.Layer().Values {
		if state, err = state.WithFile(c.Layer()); err != nil {
			return nil, c.Blame(err)
		}
	}
	r.fill(c, state.Relined(c.Layer()))
	return r, nil
}

func (r *Report) restore(state *settings.State, c *statefile.Contents) (*settings.State, error) {
	restored, err := state.Restore(c.Revision, c.File, c.Layers)
	if err != nil {
		return nil, fmt.Errorf("%s doesn't suit this rdmad: %w", r.State.Path, err)
	}
	r.State.Read, r.State.Revision = true, c.Revision
	if n := len(c.Entries); n > 0 && c.Entries[n-1].Status == history.Pending {
		last := c.Entries[n-1]
		r.State.Pending, r.State.Deadline = last.Revision, last.Deadline.UTC().Format(time.RFC3339)
	}
	return restored, nil
}

func (r *Report) fill(c *config.Config, state *settings.State) {
	for k := range live.NumKeys {
		sayings := state.ExplainAt(k, settings.Scope{})
		if len(sayings) == 0 {
			continue // nothing implements it
		}
		v := Value{Key: k.String()}
		for _, s := range sayings {
			if s.Wins {
				v.Value, v.Source, v.Detail, v.Revision = s.Value, s.Source, s.Detail, s.Revision
				if s.Source == "config" {
					v.Detail = c.Origins.Of("settings." + v.Key).String()
				}
			} else if s.Source == "config" {
				v.Over = s.Value + " " + place(s.Source, s.Detail)
			}
		}
		r.Settings = append(r.Settings, v)
	}
	for _, scope := range state.Dump().Scopes {
		if scope.Scope == (settings.Scope{}).String() {
			continue
		}
		r.scope(state, scope)
	}
}

func (r *Report) scope(state *settings.State, d settings.ScopeDump) {
	scope, err := settings.ParseScope(d.Scope)
	if err != nil {
		return // a dump's scopes are spelt as scopes are
	}
	layer := state.Layer(scope)
	for _, key := range slices.Sorted(maps.Keys(d.Values)) {
		k, _ := settings.ParseKey(key)
		r.Scopes = append(r.Scopes, Scoped{Scope: d.Scope, Key: key, Value: d.Values[key], Revision: layer.Set[k]})
	}
}

// place is a source in short.
func place(source, detail string) string {
	if detail != "" {
		return source + " " + detail
	}
	return source
}

// JSON writes the report as one object.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	what := count(r.Listeners, "listener") + ", " + count(r.Services, "service")
	if r.Connectors > 0 {
		what += ", " + count(r.Connectors, "connector")
	}
	fmt.Fprintf(out, "%s: ok (%s)\n", r.File, what)
	if line := r.State.line(); line != "" {
		fmt.Fprintln(out, line)
	}
	for _, l := range r.Unreachable {
		fmt.Fprintln(out, l)
	}
	fmt.Fprint(out, "\nKEY\tVALUE\tFROM\n")
	for _, v := range r.Configuration {
		fmt.Fprintf(out, "%s\t%s\t%s\n", v.Key, v.Value, v.From)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprint(out, "\nSETTING\tVALUE\tFROM\n")
	for _, v := range r.Settings {
		from := place(v.Source, v.Detail)
		if v.Revision != 0 {
			from += fmt.Sprintf(", revision %d", v.Revision)
		}
		if v.Over != "" {
			from += ", over " + v.Over
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", v.Key, v.Value, from)
	}
	for _, s := range r.Scopes {
		fmt.Fprintf(out, "%s\t%s\t%s, revision %d\n", s.Key, s.Value, s.Scope, s.Revision)
	}
	return out.Flush()
}

func (s *State) line() string {
	switch {
	case s.Problem != "":
		return "stored settings not read: " + s.Problem
	case !s.Read:
		return ""
	case s.Pending != 0:
		return fmt.Sprintf("stored settings: %s, revision %d, which waits to be confirmed until %s", s.Path, s.Revision, s.Deadline)
	}
	return fmt.Sprintf("stored settings: %s, revision %d", s.Path, s.Revision)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
