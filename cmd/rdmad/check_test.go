package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/provenance"
)

// TestCheckInSmallControlGroup: check says how much memory the control group
// leaves, and what to do.
func TestCheckInSmallControlGroup(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"rdmad.yaml":                     "limits: {memory: 1073741824}\nservices: [{name: test, echo: {}}]\n",
		"proc/self/cgroup":               "0::/rdmad\n",
		"sys/fs/cgroup/rdmad/memory.max": "643825664\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(output string) (stdout, stderr string) {
		t.Helper()
		o := options{root: root}
		cmd := o.checkCommand()
		cmd.SetArgs([]string{"--config", filepath.Join(root, "rdmad.yaml"), "-o", output})
		var out, errs bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		return out.String(), errs.String()
	}
	const want = "limits.memory is 1024 MiB, but the control group's limit is 614 MiB (/sys/fs/cgroup/rdmad/memory.max), " +
		"which leaves 500 MiB: set limits.memory to that or less, or raise it to 1190 MiB"
	if _, stderr := check("table"); stderr != "rdmad: warning: "+want+"\n" {
		t.Error(stderr)
	}
	stdout, _ := check("json")
	var report struct{ Memory provenance.Memory }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if m := report.Memory; m.Source != "cgroup" || m.Limit != 500<<20 || m.Asked != 1<<30 || m.Warning != want {
		t.Errorf("as JSON: %+v", m)
	}
}
