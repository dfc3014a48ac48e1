package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(leakTest{m}, map[string]func(){"rdmad": profiledMain})
}

// leakTest fails when tests leave goroutines behind.
type leakTest struct{ m *testing.M }

func (l leakTest) Run() int {
	code := l.m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// TestScripts runs testdata/script. Besides testscript's own commands there
// are:
//
//	exits CODE COMMAND ...    run a command that must end with CODE
//	occupy VAR                listen on a free port and put its address into VAR
//	start NAME ARG...         run rdmad until it says READY=1; each address it
//	                          listens on is in NAME_what, such as NAME_control
//	expand FILE...            put variables into files
//	end NAME SIGNAL CODE      send a signal; it must end with CODE. Its log is
//	                          then in NAME.log, and what it told the service
//	                          manager since it was ready in NAME.told
//	send NAME SIGNAL          send a signal to one that goes on
//	logged NAME COUNT REGEXP  wait until its log has so many lines that match
//	get CODE URL              HTTP GET, the body to standard output
//
// OLD_SETTINGS is a settings.db that an earlier rdmad wrote.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[daemonsKey{}] = map[string]*process{}
			old, err := filepath.Abs("../../controlplane/statefile/testdata/settings.db")
			env.Setenv("OLD_SETTINGS", old)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  cmdExits,
			"occupy": cmdOccupy,
			"start":  cmdStart,
			"expand": cmdExpand,
			"end":    cmdEnd,
			"send":   cmdSend,
			"logged": cmdLogged,
			"get":    cmdGet,
		},
	})
}

type daemonsKey struct{}

func daemons(ts *testscript.TestScript) map[string]*process {
	return ts.Value(daemonsKey{}).(map[string]*process)
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func cmdOccupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: occupy VAR")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

func cmdExpand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, file := range args {
		text := os.Expand(ts.ReadFile(file), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: start NAME ARG...")
	}
	program, err := exec.LookPath("rdmad")
	ts.Check(err)
	p, err := startProcess(program, ts.MkAbs("."), args[1:])
	ts.Check(err)
	ts.Defer(p.kill)
	daemons(ts)[args[0]] = p
	for what, address := range p.addresses {
		ts.Setenv(args[0]+"_"+what, address)
	}
}

func cmdEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: end NAME SIGNAL CODE")
	}
	p := startedOne(ts, args[0])
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	ts.Check(p.signal(args[1]))
	if code := p.wait(); code != want {
		ts.Fatalf("exit code %d, want %d; log:\n%s", code, want, p.Log())
	}
	var told []string
	for what := range p.told { // until it has ended
		told = append(told, what)
	}
	if want == 0 && (len(told) == 0 || told[len(told)-1] != "STOPPING=1") {
		ts.Fatalf("service manager told %q, not STOPPING=1 in the end", told)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".told"), []byte(strings.Join(told, "\n")+"\n"), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".log"), []byte(p.Log()), 0o600))
}

// startedOne is a daemon that was started.
func startedOne(ts *testscript.TestScript, name string) *process {
	p := daemons(ts)[name]
	if p == nil {
		ts.Fatalf("%s was not started", name)
	}
	return p
}

func cmdSend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: send NAME SIGNAL")
	}
	ts.Check(startedOne(ts, args[0]).signal(args[1]))
}

func cmdLogged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: logged NAME COUNT REGEXP")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	ts.Check(startedOne(ts, args[0]).waitLog(pattern, n))
}

func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: get CODE URL")
	}
	status, body := getChecked(ts, args[1])
	_, err := ts.Stdout().Write(body)
	ts.Check(err)
	if got := strconv.Itoa(status); got != args[0] {
		ts.Fatalf("status %s, want %s", got, args[0])
	}
}

// getChecked gets a page. It gets the page again while that has a condition that rdmad has not
// looked at yet, as it may just after the start.
func getChecked(ts *testscript.TestScript, url string) (status int, body []byte) {
	for {
		resp, err := http.Get(url)
		ts.Check(err)
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		ts.Check(err)
		if !bytes.Contains(body, []byte(" UNKNOWN NotChecked\n")) {
			return resp.StatusCode, body
		}
	}
}
