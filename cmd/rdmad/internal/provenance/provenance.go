// Package provenance shows, without a running rdmad, which live settings rdmad would have with
// a configuration, and the origin of each: the built-in default, a line of the file, or a
// stored setting of an operator.
package provenance

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Report shows the effects of a configuration.
type Report struct {
	File      string `json:"file"`
	Listeners int    `json:"listeners"`
	Services  int    `json:"services"`
	// Connectors are omitted from the text when there are none.
	Connectors int    `json:"connectors"`
	Memory     Memory `json:"memory"`
	// Unreachable lists the limits that need more open files than a process may have here,
	// one line each.
	Unreachable []string `json:"unreachable_limits"`
	State       State    `json:"state"`
	// Configuration has everything except the live settings.
	Configuration []Configured `json:"configuration"`
	// Settings has all settings at the global scope.
	Settings []Value `json:"settings"`
	// Scopes has the settings of listener and peer scopes.
	Scopes []Scoped `json:"scopes"`
}

// Memory is the limit of the process's memory, in bytes.
type Memory struct {
	Limit   int64  `json:"limit"`   // effective, in this control group
	Source  string `json:"source"`  // default, limits.memory or cgroup
	Asked   int64  `json:"asked"`   // by limits.memory or its default
	Warning string `json:"warning"` // why Limit is lower than Asked, and what to do
}

// State is the file of the stored settings.
type State struct {
	Path     string `json:"path"`
	Read     bool   `json:"read"`     // false when there is no file
	Problem  string `json:"problem"`  // why it was not read; "" if that is expected
	Revision uint32 `json:"revision"` // of the stored settings
	// Pending is the revision that waits to be confirmed until Deadline, or 0. After the deadline
	// rdmad takes it back when it starts, and the report has the settings without it.
	Pending  uint32 `json:"pending"`
	Deadline string `json:"deadline"`
	// Waits means that the settings of the configuration differ from its last ones, and wait for that
	// revision. The report has the last ones.
	Waits   bool `json:"waits"`
	overdue bool
}

// Configured is a value of the configuration and its origin.
type Configured struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"` // default, FILE:LINE, an environment variable, a flag or the file of a stored change
}

// Value is a setting and its origin.
type Value struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Source   string `json:"source"`   // default, config or a scope at which operators set it
	Detail   string `json:"detail"`   // FILE:LINE for config, otherwise ""
	Revision uint32 `json:"revision"` // that set it; 0 for default and config
	// Over is the file's value if a stored value overrides it, otherwise "".
	Over string `json:"over"`
}

// Scoped is a setting at a narrower scope.
type Scoped struct {
	Scope string `json:"scope"`
	Value
}

// Make reads the stored settings of a configuration. A running rdmad does not prevent that. An
// error means that rdmad would not start.
func Make(c *config.Config, stored string) (*Report, error) {
	r := &Report{
		File: c.File, Listeners: len(c.Listeners), Services: len(c.Services), Connectors: len(c.Connectors), State: State{Path: stored},
		Settings: []Value{}, Scopes: []Scoped{}, Unreachable: []string{},
	}
	for _, v := range c.Values() {
		r.Configuration = append(r.Configuration, Configured{v.Key, v.Value, v.From.String()})
	}
	state := settings.Builtin()
	contents, err := statefile.Read(stored)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case errors.Is(err, os.ErrPermission):
		r.State.Problem = err.Error()
	case err != nil:
		return nil, err
	default:
		if state, err = r.restore(state, contents, c.Fleet != nil); err != nil {
			return nil, err
		}
	}
	state = r.left(c, state) // before the file: it need not go with the settings of the fleet
	layer := c.Layer()
	if contents == nil || layer.Differ(&contents.Seen) != 0 {
		next, err := state.WithFile(layer)
		if err != nil {
			return nil, c.Blame(err)
		}
		if r.State.Waits = r.State.Pending != 0 && !r.State.overdue; !r.State.Waits {
			state = next
		}
	}
	state = r.left(c, state) // if they go together only with the new file
	r.fill(c, state.Relined(layer))
	return r, nil
}

// left returns a state without the settings of the fleet, if rdmad leaves that at its start.
func (r *Report) left(c *config.Config, state *settings.State) *settings.State {
	if c.Fleet != nil || r.State.Pending != 0 && !r.State.overdue {
		return state
	}
	next, err := state.WithFleet(settings.FleetLayer{})
	if err != nil {
		return state
	}
	return next
}

// Stored marks the values of a section that operators changed, by their paths in the section.
// before are the values without the changes, file is the file with the changes.
func (r *Report) Stored(section string, changed map[string]any, before []config.Value, file string) {
	for i := range r.Configuration {
		v := &r.Configuration[i]
		path, in := strings.CutPrefix(v.Key, section+".")
		if _, stored := changed[path]; !in || !stored {
			continue
		}
		v.From = "stored in " + file
		if at := slices.IndexFunc(before, func(b config.Value) bool { return b.Key == v.Key }); at >= 0 {
			v.From += ", over " + before[at].Value + " " + before[at].From.String()
		}
	}
}

func (r *Report) restore(state *settings.State, c *statefile.Contents, inFleet bool) (*settings.State, error) {
	restored, err := state.Restore(c.Revision, c.File, c.Fleet, c.Layers)
	if err != nil {
		return nil, fmt.Errorf("%s doesn't suit this rdmad: %w", r.State.Path, err)
	}
	r.State.Read, r.State.Revision = true, c.Revision
	if n := len(c.Entries); n > 0 && c.Entries[n-1].Status == history.Pending {
		last := c.Entries[n-1]
		if last.Kind == history.Fleet && !inFleet {
			return restored, nil // it goes with the rest of the fleet's settings
		}
		r.State.Pending, r.State.Deadline = last.Revision, last.Deadline.UTC().Format(time.RFC3339)
		if r.State.overdue = !time.Now().Before(last.Deadline); r.State.overdue {
			restored = restored.Undo(last.Step, func(string) bool { return false })
			if last.Step.Fleet != nil {
				restored = restored.TakeBack(last.Step.Fleet)
			}
		}
	}
	return restored, nil
}

func (r *Report) fill(c *config.Config, state *settings.State) {
	now, inForce := c.Layer(), state.File()
	if now.Differ(&inForce) != 0 {
		c = nil
	}
	for k := range live.NumKeys {
		r.Settings = append(r.Settings, value(c, state, settings.Scope{}, k))
	}
	for _, d := range state.Dump().Scopes {
		if d.Scope == (settings.Scope{}) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(d.Values.Text())) {
			k, _ := live.ParseKey(key)
			r.Scopes = append(r.Scopes, Scoped{d.Scope.String(), value(c, state, d.Scope, k)})
		}
	}
}

// value returns the effective value at a scope. c is nil if the values of an earlier version of the file
// are in force.
func value(c *config.Config, state *settings.State, scope settings.Scope, k settings.Key) Value {
	v := Value{Key: k.String()}
	for _, s := range state.Explain(k, scope, settings.Target{}) {
		if s.Source == "config" && c != nil {
			s.Detail = c.SettingOrigin(s.Scope, k).String()
		}
		if s.Wins {
			v.Value, v.Source, v.Detail, v.Revision = s.Value, s.Source, s.Detail, s.Revision
		} else if s.Source == "config" && s.Scope == scope {
			v.Over = s.Value + " " + place(s.Source, s.Detail)
		}
	}
	return v
}

// from returns the origin in one line.
func (v *Value) from() string {
	from := place(v.Source, v.Detail)
	if v.Revision != 0 {
		from += fmt.Sprintf(", revision %d", v.Revision)
	}
	if v.Over != "" {
		from += ", over " + v.Over
	}
	return from
}

// place returns a source in short.
func place(source, detail string) string {
	if detail != "" {
		return source + " " + detail
	}
	return source
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
		fmt.Fprintf(out, "%s\t%s\t%s\n", v.Key, v.Value, v.from())
	}
	for _, s := range r.Scopes {
		from := s.from()
		if s.Source == "config" {
			from = s.Scope + ", " + from
		}
		fmt.Fprintf(out, "%s\t%s\t%s\n", s.Key, s.Value.Value, from)
	}
	return out.Flush()
}

func (s *State) line() string {
	switch {
	case s.Problem != "":
		return "stored settings not read: " + s.Problem
	case !s.Read:
		return ""
	case s.overdue:
		return fmt.Sprintf("stored settings: %s, revision %d, which was not confirmed until %s: rdmad takes it back when it starts", s.Path, s.Revision, s.Deadline)
	case s.Waits:
		return fmt.Sprintf("stored settings: %s, revision %d, which waits to be confirmed until %s: new settings of the file are in force when it is confirmed or rolled back", s.Path, s.Revision, s.Deadline)
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
