package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// parentEnv makes the test program act as a parent that starts a child and
// waits.
const parentEnv = "RDMAD_CHILD_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		playParent()
	}
	goleak.VerifyTestMain(m)
}

// playParent starts a child that keeps standard output open, and then keeps
// running.
func playParent() {
	cmd := exec.Command("sleep", "1000")
	cmd.Stdout = os.Stdout
	if _, err := Start(cmd); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

func TestKillAndWait(t *testing.T) {
	p, err := Start(exec.Command("sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
		t.Error("ended by itself")
	default:
	}
	p.Kill()
	if err := p.Wait(); err == nil {
		t.Error("no error from a program that was killed")
	}
	p.Signal(syscall.SIGTERM) // nobody there: no harm
}

// TestOutputLeftOpen starts a program that leaves a process with its output
// behind. It ends once its output has come.
func TestOutputLeftOpen(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; cat")
	cmd.WaitDelay = 10 * time.Millisecond
	end, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	cmd.Stdout = in
	p, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	end.Close()
	if err := p.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("error %v, want ErrWaitDelay", err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(line))
	if err == nil {
		err = syscall.Kill(left, syscall.SIGKILL)
	}
	if err != nil {
		t.Errorf("the process left behind is %q: %v", line, err)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(exec.Command("/nonexistent")); err == nil {
		t.Error("a program that is not there was started")
	}
}

// TestDiesWithParent kills a parent. Its child must close the pipe.
func TestDiesWithParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	if line, err := in.ReadString('\n'); err != nil || line != "started\n" {
		t.Fatalf("the parent said %q, error %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) != 0 {
		t.Errorf("after the parent's death: %q, error %v", rest, err)
	}
	_ = parent.Wait() // killed, as said above
}
