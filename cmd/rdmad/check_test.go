package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/provenance"
	"github.com/rdmad/rdmad/controlplane/configfile"
)

// smallGroup makes the files of a machine with a control group, and returns their root.
func smallGroup(t *testing.T, config, most string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{"rdmad.yaml": config, "proc/self/cgroup": "0::/rdmad\n", "sys/fs/cgroup/rdmad/memory.max": most + "\n"} {
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

// TestCheckInSmallControlGroup: check says how much memory the control group
// leaves, and what to do.
func TestCheckInSmallControlGroup(t *testing.T) {
	root := smallGroup(t, "limits: {memory: 1073741824}\nservices: [{name: test, echo: {}}]\n", "643825664")
	check := func(output string) (stdout, stderr string) {
		t.Helper()
		o := options{root: root}
		cmd := o.checkCommand()
		cmd.SetArgs([]string{"--config", filepath.Join(root, "rdmad.yaml"), "-o", output})
		var out, errs bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		must(t, cmd.Execute())
		return out.String(), errs.String()
	}
	const want = "limits.memory is 1024 MiB, but the control group's limit is 614 MiB (/sys/fs/cgroup/rdmad/memory.max), " +
		"which leaves 500 MiB: set limits.memory to that or less, or raise it to 1190 MiB"
	if _, stderr := check("table"); stderr != "rdmad: warning: "+want+"\n" {
		t.Error(stderr)
	}
	stdout, _ := check("json")
	var report struct{ Memory provenance.Memory }
	must(t, json.Unmarshal([]byte(stdout), &report))
	if m := report.Memory; m.Source != "cgroup" || m.Limit != 500<<20 || m.Asked != 1<<30 || m.Warning != want {
		t.Errorf("as JSON: %+v", m)
	}
}

// TestCheckManyInSmallControlGroup: where the control group is why there is too little memory for the
// listeners, check doesn't say that limits.memory is.
func TestCheckManyInSmallControlGroup(t *testing.T) {
	var config strings.Builder
	config.WriteString("services: [{name: test, echo: {}}]\nlisteners:\n")
	for i := range 5 {
		fmt.Fprintf(&config, "  - {name: l%d, provider: softiwarp, address: \"127.0.0.1:0\", service: test}\n", i)
	}
	root := smallGroup(t, config.String(), strconv.Itoa(100<<20))
	o := options{root: root}
	cmd := o.checkCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--config", filepath.Join(root, "rdmad.yaml")})
	const want = "limits.memory: 5 listeners need 21840 KiB of registered memory, and the control group's limit in " +
		"/sys/fs/cgroup/rdmad/memory.max leaves 20945 KiB, enough for 4; raise that limit, or have fewer listeners"
	if err := cmd.Execute(); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCheckOfAHungExport: check says which export does not answer, and finds other mistakes, too.
func TestCheckOfAHungExport(t *testing.T) {
	answerTimeout = time.Millisecond
	defer func() { answerTimeout = filesTimeout }()
	dir := t.TempDir()
	file, hung := filepath.Join(dir, "rdmad.yaml"), filepath.Join(dir, "hung")
	must(t, syscall.Mkfifo(hung, 0o600)) // opening it waits for a writer, as for a file server
	must(t, os.WriteFile(file, fmt.Appendf(nil, "state: {path: %q}\nservices: [{name: disk, nfs: {path: %q}}]\n", file, hung), 0o600))
	var o options
	cmd := o.checkCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--config", file})
	checked := make(chan error, 1)
	go func() { checked <- cmd.Execute() }()
	var err error
	select {
	case err = <-checked:
	case <-time.After(time.Minute):
		t.Error("check waits for the file system")
	}
	w := have(os.OpenFile(hung, os.O_WRONLY, 0))(t)
	must(t, w.Close())
	mistakes, _ := errors.AsType[configfile.Errors](err)
	if len(mistakes) != 2 || mistakes[0].Key != "state.path" || mistakes[1].Key != "services[0].nfs.path" ||
		mistakes[1].Msg != "the file system of "+hung+" does not answer" {
		t.Errorf("%v", err)
	}
}
