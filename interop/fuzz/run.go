package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// result is the result of one slice of a target.
type result struct {
	executions uint64
	speed      float64 // per second
	output     []byte
}

// binaries builds the tests of each package at most once, because linking takes
// seconds of a slice.
type binaries struct {
	dir    string // folder of the binaries
	module string // path of the module
	cache  string // folder of the corpora
	built  map[string]error
}

func newBinaries(dir string) (*binaries, error) {
	out, err := exec.Command("go", "list", "-m").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOCACHE: %w", err)
	}
	return &binaries{
		dir: dir, module: strings.TrimSpace(string(out)), cache: filepath.Join(strings.TrimSpace(string(cache)), "fuzz"), built: make(map[string]error),
	}, nil
}

// of builds the tests in folder. It instruments only the module's own code,
// because the fuzzer reads all counters after each input, and most would belong
// to libraries.
func (b *binaries) of(ctx context.Context, folder string) (file string, err error) {
	file = filepath.Join(b.dir, strings.ReplaceAll(filepath.Clean(folder), "/", "_")+".test")
	err, ok := b.built[folder]
	if !ok {
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-gcflags="+b.module+"/...=-d=libfuzzer", "-o", file, "./"+folder)
		if out, failed := cmd.CombinedOutput(); failed != nil {
			err = fmt.Errorf("%w\n%s", failed, out)
		}
		b.built[folder] = err
	}
	return file, err
}

// fuzz runs a target for one slice. The test leaves a failing input in the
// target's testdata.
func (b *binaries) fuzz(ctx context.Context, name string, slice time.Duration) (result, error) {
	folder, function := filepath.Split(name)
	file, err := b.of(ctx, folder)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", name, err)
	}
	cmd := exec.CommandContext(ctx, file, "-test.run", "^$", "-test.fuzz", "^"+function+"$", "-test.fuzztime", slice.String(),
		"-test.fuzzminimizetime", "20x", "-test.parallel", "1", "-test.fuzzcachedir", filepath.Join(b.cache, b.module, folder))
	cmd.Dir = folder
	// The goroutine that runs an input and the one that waits for it take
	// turns. On one processor that costs half as much.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // on SIGINT the test prints its counts
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	r := parse(out)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return r, err
}

var progress = regexp.MustCompile(`(?m)^fuzz: elapsed: (\S+?), execs: (\d+)`)

// parse reads the last line of progress that the test printed.
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
