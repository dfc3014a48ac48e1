package guest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ErrGivenUp means that a script has not ended, or not printed, within its
// bound. All other scripts of the guest fail with it, at once: a guest that
// hangs must not cost a test one bound after the other. [Boot] logs a report of
// what the guest did.
var ErrGivenUp = errors.New("guest: given up, because it hangs")

const (
	// reportTime bounds the script that describes a guest that hangs.
	reportTime = time.Minute
	// witnessTime bounds everything else in a report.
	witnessTime = 20 * time.Second
	// quietTime is how long all guests may send nothing. Scripts have shorter
	// bounds, but calls that a test on the host makes to a guest may have none.
	quietTime = 8 * time.Minute
)

// heard is when a guest of this process sent something last, in Unix
// nanoseconds. busy counts the calls of Busy that are not done.
var (
	heard atomic.Int64
	busy  atomic.Int32
)

// Busy reports work on the host that needs no guest, such as the build of a
// program. Until done is called, no guest has to send anything.
func Busy() (done func()) {
	busy.Add(1)
	return func() {
		heard.Store(time.Now().UnixNano())
		busy.Add(-1)
	}
}

//go:embed scripts/report.sh
var reportScript string

// witnesses are what Witness was given, for all tests of this process.
var witnesses struct {
	mu  sync.Mutex
	all map[*witness]struct{}
}

type witness struct {
	name string
	tell func() string
}

// Witness adds to the reports of guests that hang until the test has ended.
// tell returns, within seconds, what it knows: for example the stacks of a
// program on the host that a guest talks to. The program need not survive.
func Witness(tb testing.TB, name string, tell func() string) {
	w := &witness{name, tell}
	witnesses.mu.Lock()
	defer witnesses.mu.Unlock()
	if witnesses.all == nil {
		witnesses.all = map[*witness]struct{}{}
	}
	witnesses.all[w] = struct{}{}
	tb.Cleanup(func() {
		witnesses.mu.Lock()
		defer witnesses.mu.Unlock()
		delete(witnesses.all, w)
	})
}

// Report returns what was found out about the guest when it was given up, or "".
// It waits for a report that is being made.
func (g *Guest) Report() string {
	g.examining.Lock()
	defer g.examining.Unlock()
	return g.report
}

// examine describes a guest that hangs: the guest's own view, QEMU's threads,
// the host's connections, and the witnesses. The guest may answer nothing.
func (g *Guest) examine(cause string) {
	g.examining.Lock()
	defer g.examining.Unlock()
	began := time.Now()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n=== in the guest\n%s", cause, g.describe())
	fmt.Fprintf(&b, "=== threads of QEMU: state, ticks in user and in system mode, where in the host's kernel\n%s", threads(g.process.Pid()))
	fmt.Fprintf(&b, "=== TCP on the host\n%s", hostSockets())
	witnesses.mu.Lock()
	var all []*witness
	for w := range witnesses.all {
		all = append(all, w)
	}
	witnesses.mu.Unlock()
	for _, w := range all {
		fmt.Fprintf(&b, "=== %s\n%s\n", w.name, w.tell())
	}
	fmt.Fprintf(&b, "=== the report took %v\n", time.Since(began).Round(time.Second))
	g.report = b.String()
}

// describe returns the output of the report script, or what there is of it
// within reportTime.
func (g *Guest) describe() string {
	cmd, err := g.session.startAnyway(reportScript)
	if err != nil {
		return err.Error() + "\n"
	}
	select {
	case <-cmd.done:
	case <-time.After(reportTime):
	}
	stdout, stderr := cmd.Output()
	if stdout == "" {
		return fmt.Sprintf("no answer within %v\n%s", reportTime, stderr)
	}
	return stdout + stderr
}

// threads describes the threads of a process of the host.
func threads(pid int) string {
	var b strings.Builder
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		stat, err := os.ReadFile(filepath.Join(task, "stat"))
		if err != nil {
			continue // it has ended
		}
		name, rest, _ := strings.Cut(string(stat), ") ")
		wchan, _ := os.ReadFile(filepath.Join(task, "wchan"))
		if f := strings.Fields(rest); len(f) > 12 {
			fmt.Fprintf(&b, "%s) %s %s %s %s\n", name, f[0], f[11], f[12], wchan)
		}
	}
	return b.String()
}

func hostSockets() string {
	ctx, cancel := context.WithTimeout(context.Background(), witnessTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ss", "-tnpo").CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v\n", out, err)
	}
	return string(out)
}

// watchQuiet ends the guest if no guest has sent anything for too long. A test
// on the host that waits for it without a bound then sees its connections end.
func (g *Guest) watchQuiet(quiet time.Duration) {
	heard.Store(time.Now().UnixNano())
	tick := time.NewTicker(quiet / 8)
	defer tick.Stop()
	for {
		select {
		case <-g.process.Done():
			return
		case <-tick.C:
		}
		if busy.Load() > 0 || time.Since(time.Unix(0, heard.Load())) < quiet {
			continue
		}
		g.session.giveUp(fmt.Sprintf("no guest has sent anything for %v", quiet), "")
		g.process.Kill()
		return
	}
}
