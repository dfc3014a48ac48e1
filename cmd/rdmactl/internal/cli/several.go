package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

// Annotations of commands: how they work with several contexts. Without one a command
// answers once, and its answers are printed when all are there.
const contextsKey = "contexts"

var (
	noContext  = map[string]string{contextsKey: "none"}   // no control plane
	oneContext = map[string]string{contextsKey: "one"}    // a terminal or a file cannot be shared
	streams    = map[string]string{contextsKey: "stream"} // lines until interrupted
)

// before checks the flags of all commands. It ends the command with a severalError if
// it is for several contexts.
func (a *app) before(cmd *cobra.Command) error {
	a.command = cmd
	if err := a.check(); err != nil {
		return err
	}
	names := a.where.names()
	kind := cmd.Annotations[contextsKey]
	if len(names) < 2 || kind == noContext[contextsKey] {
		return nil
	}
	if kind == oneContext[contextsKey] {
		return usagef("%s works with one context at a time", cmd.CommandPath())
	}
	if err := checkNames(names); err != nil {
		return err
	}
	return &severalError{names: names, stream: kind == streams[contextsKey]}
}

// severalError says that a command is for several contexts.
type severalError struct {
	names  []string
	stream bool
}

func (e *severalError) Error() string { return fmt.Sprintf("%d contexts", len(e.names)) }

// alone refuses to run for one of several contexts.
func (a *app) alone(what string) error {
	if a.one {
		return usagef("%s works with one context at a time", what)
	}
	return nil
}

// mostAtOnce bounds the contexts that a command runs for at once.
const mostAtOnce = 16

// each runs a command line for each context, and returns the largest exit code.
func (a *app) each(ctx context.Context, s *severalError, args []string) int {
	var mu sync.Mutex // over stdout and stderr
	answers, codes := make([]bytes.Buffer, len(s.names)), make([]int, len(s.names))
	places := make(chan struct{}, mostAtOnce)
	if s.stream { // none of them ends
		places = make(chan struct{}, len(s.names))
	}
	var all sync.WaitGroup
	for i, name := range s.names {
		stdout := io.Writer(&answers[i])
		if s.stream {
			stdout = &lineWriter{mu: &mu, line: func(text []byte) error { return a.eventOf(name, text) }}
		}
		stderr := &lineWriter{mu: &mu, line: func(text []byte) error {
			_, err := fmt.Fprintf(a.stderr, "%s: %s\n", name, text)
			return err
		}}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			one := &app{version: a.version, stdout: stdout, stderr: stderr, socket: a.socket, silent: a.silent, retry: a.retry, one: true}
			codes[i] = one.run(ctx, a.argsFor(name, args))
		})
	}
	all.Wait()
	if !s.stream {
		if err := a.answers(s.names, answers); err != nil {
			fmt.Fprintf(a.stderr, "rdmactl: %v\n", err)
			return exitFailed
		}
	}
	return slices.Max(codes)
}

// argsFor is a command line for one context. The last of several flags wins. YAML is
// made of the JSON of all.
func (a *app) argsFor(name string, args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	extra := []string{"--context=" + name}
	if a.format == output.FormatYAML {
		extra = append(extra, "--output="+output.FormatJSON)
	}
	return slices.Insert(slices.Clone(args), end, extra...)
}

// answers prints the answers of all contexts: an object by context, or tables with a
// heading each.
func (a *app) answers(names []string, answers []bytes.Buffer) error {
	if a.format != output.FormatTable {
		object := make(output.Object, 0, len(names))
		for i, name := range names {
			raw := json.RawMessage(answers[i].Bytes())
			if !json.Valid(raw) {
				raw = json.RawMessage("null")
			}
			object = append(object, output.Member{Name: name, Value: raw})
		}
		return a.printer().Answer(object, nil)
	}
	for i, name := range names {
		if i > 0 {
			fmt.Fprintln(a.stdout)
		}
		if _, err := fmt.Fprintf(a.stdout, "%s:\n%s", name, answers[i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// eventOf prints a line of one context's stream.
func (a *app) eventOf(name string, text []byte) error {
	if a.format != output.FormatTable {
		return a.printer().Event(output.Object{{Name: name, Value: text}}, nil)
	}
	_, err := fmt.Fprintf(a.stdout, "%s  %s\n", name, text)
	return err
}

// lineWriter hands on whole lines.
type lineWriter struct {
	mu   *sync.Mutex
	line func([]byte) error
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		w.mu.Lock()
		err := w.line(line)
		w.mu.Unlock()
		w.rest = rest
		if err != nil {
			return 0, err
		}
	}
}
