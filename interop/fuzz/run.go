package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// result has the counts of one slice of a target.
type result struct {
	executions uint64
	speed      float64 // per second
	output     []byte
}

// fuzz runs a target in the tree that it is called in. A failing input is left
// in the target's testdata by go test.
func fuzz(ctx context.Context, name string, slice time.Duration) (result, error) {
	folder, function := split(name)
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+function+"$", "-fuzztime", slice.String(),
		"-fuzzminimizetime", "20x", "-parallel", "1", "./"+folder)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // go test then prints its counts
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	r := parse(out)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return r, err
}

var progress = regexp.MustCompile(`(?m)^fuzz: elapsed: (\S+?), execs: (\d+)`)

// parse reads the last line of progress that go test printed.
func parse(out []byte) result {
	r := result{output: out}
	lines := progress.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		return r
	}
	last := lines[len(lines)-1]
	r.executions, _ = strconv.ParseUint(string(last[2]), 10, 64)
	if took, err := time.ParseDuration(string(last[1])); err == nil && took > 0 {
		r.speed = float64(r.executions) / took.Seconds()
	}
	return r
}
