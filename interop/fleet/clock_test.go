package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/child"
)

// clockEnv makes the test program write its wall clock for each line that it reads.
const clockEnv = "RDMAD_FLEET_CLOCK"

func playClock() {
	began := time.Now()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(time.Now().Unix(), time.Since(began) < time.Hour)
	}
}

// stepClock stops a process, sets the wall clock that it sees, and lets it go on.
func stepClock(pid int, ahead time.Duration) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	defer syscall.Kill(pid, syscall.SIGCONT) // it may have been killed
	for deadline := time.Now().Add(time.Minute); !stopped(pid); {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not stop", pid)
		}
		time.Sleep(time.Millisecond)
	}
	return setClock(pid, ahead)
}

// stopped reports whether all threads of a process are stopped, or gone.
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, t := range threads {
		text, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		if _, state, ok := strings.Cut(string(text), ") "); ok && !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// A process sees its wall clock jump forward and back, and its monotonic clock go on.
func TestStepClock(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), clockEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	answers := bufio.NewReader(out)
	for _, ahead := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, 0} {
		if err := stepClock(p.Pid(), ahead); errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(in); err != nil {
			t.Fatal(err)
		}
		var now int64
		var monotonic bool
		if _, err := fmt.Fscanln(answers, &now, &monotonic); err != nil {
			t.Fatal(err)
		}
		if got := time.Until(time.Unix(now, 0)) - ahead; got.Abs() > time.Hour || !monotonic {
			t.Errorf("%v ahead: off by %v; monotonic clock goes on: %v", ahead, got, monotonic)
		}
	}
}
