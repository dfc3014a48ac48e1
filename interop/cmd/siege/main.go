// Command siege attacks an rdmad and reports what innocent clients notice.
//
//	siege run -rdmad bin/rdmad -json bin/siege.json
//	siege page -json bin/siege.json
//
// The attacking processes run `siege attack`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/interop/siege"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "siege:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("run, page or attack?")
	}
	switch args[0] {
	case "run":
		return run(ctx, args[1:])
	case "page":
		return page(args[1:])
	case "attack":
		return attack(ctx, args[1:])
	}
	return fmt.Errorf("no command %q: run, page or attack", args[0])
}

// attack attacks until a signal comes or standard input ends.
func attack(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("attack NAME TARGET")
	}
	a := siege.Find(args[0])
	if a == nil {
		return fmt.Errorf("no attack %q", args[0])
	}
	var t siege.Target
	if err := json.Unmarshal([]byte(args[1]), &t); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return siege.Execute(ctx, a, t, os.Stdout)
}

// errMissed means that rdmad missed goals.
var errMissed = errors.New("goals were missed")

func run(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("run", flag.ExitOnError)
	rdmad := f.String("rdmad", "bin/rdmad", "the `program` that is attacked")
	out := f.String("json", "bin/siege.json", "`file` for the figures")
	phase := f.Duration("time", time.Minute, "time of each phase: before, during and after an attack")
	short := f.Bool("short", false, "the short form, as in the tests")
	apart := f.Bool("apart", false, "attack an rdmad that the clients do not use: what the attack costs them on the same processors by itself")
	only := f.String("attacks", "", "`names` of attacks, separated by commas; all when not given")
	if err := parse(f, args); err != nil {
		return err
	}
	program, err := filepath.Abs(*rdmad)
	if err != nil {
		return err
	}
	attacks, err := chosen(*only)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if *short {
		*phase = siege.ShortPhase
	}
	group := ""
	if !*short {
		if group, err = siege.IdleGroup(); err != nil {
			say("attackers have only the class SCHED_IDLE, which costs the clients up to 4 ms now and then: no control group: %v", err)
		} else {
			defer os.Remove(group)
		}
	}
	r := siege.Report{Started: time.Now(), CPUs: runtime.NumCPU(), Seconds: phase.Seconds(), Group: group != ""}
	missed := 0
	for i, a := range attacks {
		say("%d of %d: %s: %s", i+1, len(attacks), a.Name, a.Does)
		if a.Root && os.Getuid() != 0 {
			say("%s: left out, it needs root", a.Name)
			continue
		}
		o, err := one(ctx, a, siege.Options{Rdmad: program, Attacker: []string{self, "attack"}, Phase: *phase, Short: *short, Apart: *apart, Group: group, Progress: say})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			o.Failures = append(o.Failures, "the attack could not be made: "+err.Error())
		}
		for _, f := range o.Failures {
			say("%s: MISSED: %s", a.Name, f)
		}
		if len(o.Failures) == 0 {
			say("%s: all goals met", a.Name)
		} else {
			missed++
		}
		r.Outcomes = append(r.Outcomes, o)
		if err := r.Write(*out); err != nil {
			return err
		}
	}
	if missed > 0 {
		return fmt.Errorf("%w under %d of %d attacks", errMissed, missed, len(r.Outcomes))
	}
	return nil
}

// one runs one attack in a directory of its own.
func one(ctx context.Context, a *siege.Attack, o siege.Options) (out siege.Outcome, err error) {
	if o.Dir, err = os.MkdirTemp("", "siege-"); err != nil {
		return out, err
	}
	defer os.RemoveAll(o.Dir)
	if err := os.Chmod(o.Dir, 0o755); err != nil {
		return out, err
	}
	return siege.Run(ctx, a, o)
}

// chosen returns the attacks with the given names, or all attacks if names is
// "".
func chosen(names string) (list []*siege.Attack, err error) {
	for i := range siege.Attacks {
		if names == "" {
			list = append(list, &siege.Attacks[i])
		}
	}
	for name := range strings.SplitSeq(names, ",") {
		a := siege.Find(name)
		switch {
		case a != nil:
			list = append(list, a)
		case names != "":
			return nil, fmt.Errorf("no attack %q", name)
		}
	}
	return list, nil
}

// parse reads the flags, which are all that a command takes.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; run takes names of attacks in -attacks", f.Arg(0))
	}
	return nil
}

// say prints a line of progress.
func say(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// page writes the attacks and the figures into docs/security.md.
func page(args []string) error {
	f := flag.NewFlagSet("page", flag.ExitOnError)
	in := f.String("json", "", "`file` with the figures; without one, only the list of attacks is made anew")
	path := f.String("page", "docs/security.md", "the `page`")
	if err := parse(f, args); err != nil {
		return err
	}
	var r *siege.Report
	if *in != "" {
		var err error
		if r, err = siege.Read(*in); err != nil {
			return err
		}
	}
	old, err := os.ReadFile(*path)
	if err != nil {
		return err
	}
	text, err := siege.FillPage(string(old), r)
	if err != nil {
		return fmt.Errorf("%s: %w", *path, err)
	}
	return os.WriteFile(*path, []byte(text), 0o644)
}
