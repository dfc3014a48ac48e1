package manager

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// everything sets each field there is.
var everything = Saved{
	Services: []ServiceSpec{
		{Name: "a", NFS: &NFSSpec{Path: "/srv", ReadOnly: true, Squash: "all", AsyncMetadata: true, TCPListen: "127.0.0.1:1"}},
		{Name: "b", Echo: &EchoSpec{}},
		{Name: "c", Forward: &ForwardSpec{Address: "h:2"}},
	},
	Listeners: []ListenerSpec{{
		Name: "l", Provider: "softiwarp", Address: "127.0.0.1:3", Service: "a", RPCBind: true,
		Limits: dataplane.Limits{Connections: 1, ConnectionsPerPeer: 2, Handshakes: 3},
		Access: dataplane.Access{
			Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")},
			Deny:  []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")},
		},
	}},
}

func TestFileKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "listeners.json")
	got, err := NewFile(path).Load()
	if err != nil || len(got.Services)+len(got.Listeners) != 0 {
		t.Errorf("without a file: %+v, %v", got, err)
	}
	for _, want := range []Saved{everything, {}, everything} {
		if err := NewFile(path).Save(want); err != nil {
			t.Fatal(err)
		}
		if got, err = NewFile(path).Load(); err != nil {
			t.Fatal(err)
		}
		same(t, "loaded", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestConnectorFileKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "connectors.json")
	if got, err := NewConnectorFile(path).Load(); err != nil || len(got) != 0 {
		t.Errorf("without a file: %+v, %v", got, err)
	}
	want := []ConnectorSpec{{
		Name: "a", Listen: "127.0.0.1:1", Provider: "softiwarp", Target: "h:2", DialTimeout: 3, CallbackTimeout: 4, MaxCalls: 5, MaxReply: 6,
		Limits: spec.ConnectorLimits{Memory: 7, Limits: dataplane.Limits{Connections: 8}}, Access: dataplane.Access{Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}, {Name: "b"}}
	if err := NewConnectorFile(path).Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := NewConnectorFile(path).Load()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("loaded %+v, %v; want %+v", got, err, want)
	}
	if err := os.WriteFile(path, []byte(`{"format": 1, "connector": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewConnectorFile(path).Load(); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("of a file that is not understood: %v", err)
	}
}

func TestBadFileIsLeftAlone(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "is damaged (unexpected end of JSON input)"},
		{"cut", `{"format": 1, "serv`, "is damaged (unexpected end of JSON input)"},
		{"later", `{"format": 3, "things": []}`, "has format 3, and this rdmad knows format 2"},
		{"other", `{}`, "has format 0, and this rdmad knows format 2"},
		{"unknown field", `{"format": 1, "servces": []}`, "is damaged ('' has invalid keys: servces)"},
		{"bad prefix", `{"format": 1, "listeners": [{"name": "a", "deny": ["x"]}]}`, "is damaged ("},
		{"huge", strings.Repeat(" ", maxFile+1), "is longer than 16777216 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "listeners.json")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := NewFile(path).Load()
			if err == nil || !strings.Contains(err.Error(), path+": "+c.want) || !strings.Contains(err.Error(), "restore it, or move it away") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %s", err, c.want)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != c.text {
				t.Error("the file was touched")
			}
		})
	}
}

// TestFailedWriteChangesNothing at any length that is written, and leaves
// nothing beside the file.
func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	f := NewFile(filepath.Join(dir, "listeners.json"))
	if err := f.Save(everything); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 100} {
		f.write = func(file *os.File, b []byte) error {
			_, err := file.Write(b[:min(n, len(b))])
			return errors.Join(err, syscall.ENOSPC)
		}
		if err := f.Save(Saved{}); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("error %v", err)
		}
		got, err := f.Load()
		if err != nil {
			t.Fatal(err)
		}
		same(t, "loaded", got, everything)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files, %v", len(all), err)
	}
	if err := NewFile(filepath.Join(dir, "missing", "listeners.json")).Save(everything); err == nil {
		t.Error("saved in a directory that is not there")
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"format": 1, "services": [{"name": "a", "echo": {}}], "listeners": [{"name": "l", "allow": ["192.0.2.0/24"]}]}`))
	f.Add([]byte(`{"format": 2, "connectors": [{"name": "a", "dial_timeout": "1s", "limits": {"memory": "1GiB", "idle": "8h"}, "deny": ["::1"]}]}`))
	f.Add([]byte(`{"format": 1}`))
	f.Add([]byte(`{"format": 9}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var saved Saved
		if err := decodeFile(b, &saved); err != nil {
			return
		}
		file := NewFile(filepath.Join(t.TempDir(), "f"))
		if err := file.Save(saved); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Load(); err != nil {
			t.Errorf("what was loaded can't be saved and loaded: %v", err)
		}
	})
}
