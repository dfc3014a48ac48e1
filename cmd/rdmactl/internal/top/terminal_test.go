package top_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/cli"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/top"
	"github.com/rdmad/rdmad/interop/child"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// asRdmactl makes this program rdmactl, so that the race detector and the
// check for leaks see it at work in a terminal.
const asRdmactl = "RDMACTL_UNDER_TEST"

// leaked is the exit code of a rdmactl that leaves goroutines behind.
const leaked = 99

func TestMain(m *testing.M) {
	if os.Getenv(asRdmactl) != "" {
		code := cli.Main("test")
		if err := goleak.Find(goleak.IgnoreTopFunction("os/signal.signal_recv"), goleak.IgnoreTopFunction("os/signal.loop")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = leaked
		}
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds how long to wait for what must happen.
const patience = 2 * time.Minute

func rdmactl(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asRdmactl+"=1", "TERM=xterm-256color", "NO_COLOR=", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// scene is a rdmad with traffic on two connections, and a top.
type scene struct {
	*testing.T
	ctx     context.Context
	program string // rdmad
	dir     string
	daemon  *child.Daemon
	*Terminal
}

// TestTop runs against a rdmad that is built once, however long that takes.
func TestTop(t *testing.T) {
	program := builtRdmad(t)
	for name, play := range map[string]func(*scene){"walk": walk, "signals": signals} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			t.Cleanup(cancel)
			s := &scene{T: t, ctx: ctx, dir: t.TempDir(), program: program}
			s.start("127.0.0.1:0")
			play(s)
		})
	}
}

func (s *scene) start(control string) {
	s.Helper()
	var err error
	s.daemon, err = startDaemon(s.ctx, s.program, s.dir, control)
	s.check(err)
	s.Cleanup(s.daemon.Kill)
}

func (s *scene) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// load makes calls until the test ends.
func (s *scene) load(listener string, args ...string) {
	s.Helper()
	cmd := rdmactl(append([]string{"bench", s.daemon.Address("listener " + listener), "--duration", "10m"}, args...)...)
	s.check(cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
}

// top starts it.
func (s *scene) top(columns, lines int, env []string, args ...string) {
	s.Helper()
	cmd := rdmactl(append([]string{"top", "--addr", s.daemon.Address("control plane"), "--interval", "100ms"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	var err error
	s.Terminal, err = openTerminal(cmd, columns, lines)
	s.check(err)
	s.Cleanup(s.Kill)
}

// press types keys and waits until all texts are on the screen.
func (s *scene) press(keys string, texts ...string) {
	s.Helper()
	if keys != "" {
		s.check(s.Keys(keys))
	}
	s.until(func(sc *top.Screen) bool {
		text := sc.String()
		return !slices.ContainsFunc(texts, func(want string) bool { return !strings.Contains(text, want) })
	}, strings.Join(texts, ", "))
}

func (s *scene) until(ok func(*top.Screen) bool, what string) {
	s.Helper()
	if err := s.Until(s.ctx, ok); err != nil {
		s.Fatalf("never shown: %s: %v", what, err)
	}
}

// ends waits for the program's end: the terminal must be as it was.
func (s *scene) ends(code int) {
	s.Helper()
	got, err := s.Wait(s.ctx)
	s.check(err)
	s.Look(func(sc *top.Screen) {
		if got != code || sc.Alternate() || !sc.CursorShown() {
			s.Errorf("exit code %d, want %d; alternate screen %v, cursor %v; the screen:\n%s", got, code, sc.Alternate(), sc.CursorShown(), sc)
		}
	})
}

// rows are the ids of the connections on the screen, from the top.
func rows(sc *top.Screen) (ids []string) {
	_, height := sc.Size()
	table := false
	for y := range height - 1 {
		fields := strings.Fields(strings.TrimPrefix(sc.Line(y), "▸"))
		if table && len(fields) > 0 {
			ids = append(ids, fields[0])
		}
		table = table || strings.Contains(sc.Line(y), "PEER")
	}
	return ids
}

func (s *scene) settings(scope string) *rdmadv1.Settings {
	s.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.daemon.Address("control plane"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	s.check(err)
	defer conn.Close()
	res, err := rdmadv1.NewSettingsServiceClient(conn).GetSettings(s.ctx, &rdmadv1.GetSettingsRequest{Scope: scope})
	s.check(err)
	return res.GetSettings()
}

// walk goes the whole way: look, sort, open a connection, change a setting of
// it, find it in force, drain, lose rdmad, see it again, quit.
func walk(s *scene) {
	s.load("nfs", "--op", "read", "--size", "2048")
	s.load("backup", "--op", "null")
	s.top(100, 30, nil, "--sort", "id")
	s.press("", "rdmad devel", "2 connections", "ID▾", "nfs ", "backup ", "p99", "CALLS/S")
	s.until(func(sc *top.Screen) bool {
		return slices.Equal(rows(sc), []string{"1", "2"}) && strings.ContainsAny(sc.Line(1), "▇█")
	}, "traffic of 1 and 2")

	s.press("r", "ID▴")
	s.until(func(sc *top.Screen) bool { return slices.Equal(rows(sc), []string{"2", "1"}) }, "2 before 1")
	s.press("/nfs\r", `1 of 2 connections with "nfs"`)
	s.press("\x1b", "2 connections")

	s.until(func(sc *top.Screen) bool { return len(rows(sc)) == 2 }, "all rows")
	s.press("\r", "Connection ", "Negotiated", "Sizes of calls", "Settings in force", "inline send            4096 bytes")
	var id string
	s.Look(func(sc *top.Screen) {
		_, rest, _ := strings.Cut(sc.String(), "\nConnection ")
		id, _, _ = strings.Cut(rest, " ")
	})
	s.press("s", "Change a setting at  connection/"+id, "inline.send_max")
	s.press("send_max\r", "allowed", "new value")
	s.press("99\r", "(is 99)")
	if got := s.settings("connection/" + id).GetInline().GetSendMax(); got != 4096 {
		s.Errorf("inline.send_max is %d before the change", got)
	}
	s.press("\x15"+"2048\r", "dry run", "APPLIED 1")
	if got := s.settings("connection/" + id).GetInline().GetSendMax(); got != 4096 {
		s.Errorf("inline.send_max is %d after a dry run", got)
	}
	s.press("\r", "done: revision 1")
	if got := s.settings("connection/" + id).GetInline().GetSendMax(); got != 2048 {
		s.Errorf("inline.send_max is %d", got)
	}
	s.press("\r", "Connection "+id, "inline send            2048 bytes", "2048   connection/"+id)

	s.check(s.Resize(80, 24))
	s.press("", "Connection "+id, "q quit")
	s.press("d", "Drain connection "+id+"?")
	s.press("y", "Connection "+id+": drain done.")
	s.press("\x1b", "PEER")

	address := s.daemon.Address("control plane")
	s.daemon.Kill()
	s.press("", "rdmad is away since ")
	s.start(address)
	s.press("", "rdmad devel", "0 connections", "No connections")
	s.press("?", "change a setting")
	s.press("x", "No connections")
	s.check(s.Keys("q"))
	s.ends(0)
}

// signals end it as q does; and there are colours only when they are wanted.
func signals(s *scene) {
	for _, c := range []struct {
		name string
		end  func() error
		args []string
		env  []string
	}{
		{"SIGTERM", func() error { return s.Signal(syscall.SIGTERM) }, nil, []string{"NO_COLOR=1"}},
		{"SIGINT", func() error { return s.Signal(os.Interrupt) }, []string{"--color", "never"}, nil},
		{"ctrl+c", func() error { return s.Keys("\x03") }, []string{"--color", "always"}, []string{"NO_COLOR=1"}},
	} {
		s.top(80, 24, c.env, c.args...)
		s.press("", "0 connections", "calls/s", "? help")
		coloured := false
		s.Look(func(sc *top.Screen) {
			for x := range 80 {
				coloured = coloured || sc.At(x, 0).Fg != ""
			}
		})
		if want := slices.Contains(c.args, "always"); coloured != want {
			s.Errorf("%s: colours %v, want %v", c.name, coloured, want)
		}
		s.check(c.end())
		s.ends(0)
	}
}

func TestTopUsage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// No connection ever comes from there, to have the port afterwards.
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	nowhere := l.Addr().String()
	l.Close()
	for _, c := range []struct {
		name string
		args []string
		env  string
		code int
		want string
	}{
		{"json", []string{"-o", "json"}, "", 2, "rdmactl: top has no -o json: for files and scripts use rdmactl connections watch"},
		{"interval", []string{"--interval", "1ms"}, "", 2, "rdmactl: --interval must be from 100ms to 1h0m0s"},
		{"sort", []string{"--sort", "luck"}, "", 2, `rdmactl: --sort "luck" is not one of id, listener, peer, calls,`},
		{"argument", []string{"now"}, "", 2, `one argument too many`},
		{"dumb", nil, "TERM=dumb", 2, "rdmactl: top needs a terminal that can move its cursor, not TERM=dumb"},
		{"no rdmad", []string{"--addr", nowhere}, "", 1, "rdmactl: rdmad is not reachable at " + nowhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := rdmactl(append([]string{"top"}, c.args...)...)
			cmd.Env = append(cmd.Env, c.env)
			term, err := openTerminal(cmd, 200, 10)
			if err != nil {
				t.Fatal(err)
			}
			defer term.Kill()
			code, err := term.Wait(ctx)
			if err != nil {
				t.Fatal(err)
			}
			term.Look(func(sc *top.Screen) {
				if text := sc.String(); code != c.code || !strings.Contains(text, c.want) || sc.Alternate() {
					t.Errorf("exit code %d, want %d; the screen:\n%s", code, c.code, text)
				}
			})
		})
	}
}

func TestTopNeedsATerminal(t *testing.T) {
	cmd := rdmactl("top")
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("got %v, want exit code 2", err)
	}
	want := "rdmactl: top needs a terminal: for files and scripts use rdmactl connections watch or rdmactl connections list -o json\n"
	if stderr.String() != want {
		t.Errorf("got %s, want %s", stderr.String(), want)
	}
}
