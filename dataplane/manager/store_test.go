package manager

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// everything sets each field there is.
var everything = spec.All{
	Services: []spec.Service{
		{Name: "a", NFS: &spec.NFS{Export: spec.Export{Path: "/srv", ReadOnly: true, Squash: "all"}, AsyncMetadata: true, TCPListen: "127.0.0.1:1"}},
		{Name: "b", Echo: &spec.Echo{}},
		{Name: "c", Forward: &spec.Forward{Address: "h:2"}},
	},
	Listeners: []spec.Listener{{
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
	for _, want := range []spec.All{everything, {}, everything} {
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

// TestTakeOver: connectors that an earlier rdmad kept in a separate file move into the common
// file, once, even after an interruption.
func TestTakeOver(t *testing.T) {
	dir := t.TempDir()
	f, old := NewFile(filepath.Join(dir, "listeners.json")), filepath.Join(dir, "connectors.json")
	want := everything
	want.Connectors = []spec.Connector{{
		Name: "a", Listen: "127.0.0.1:1", Provider: "softiwarp", Target: "h:2", DialTimeout: 3, CallbackTimeout: 4, MaxCalls: 5, MaxReply: 6,
		Limits: spec.ConnectorLimits{Memory: 7, Limits: dataplane.Limits{Connections: 8}}, Access: dataplane.Access{Deny: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
	}, {Name: "b"}}
	check := func(when string) {
		t.Helper()
		if err := f.TakeOver(old); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		got, err := f.Load()
		if err != nil {
			t.Fatal(err)
		}
		same(t, when, got, want)
		if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the old file is there: %v", when, err)
		}
	}
	keep := func(path string, all spec.All) {
		t.Helper()
		if err := NewFile(path).Save(all); err != nil {
			t.Fatal(err)
		}
	}
	keep(f.path, everything)
	keep(old, spec.All{Connectors: want.Connectors})
	check("taken over")
	check("without an old file")
	keep(old, spec.All{Connectors: []spec.Connector{{Name: "a", Listen: "127.0.0.1:9"}}})
	check("interrupted before the old file was gone, and changed since")
	if err := os.WriteFile(old, []byte(`{"format": 1, "connector": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.TakeOver(old); err == nil || !strings.Contains(err.Error(), old+": is damaged") {
		t.Errorf("of a file that is not understood: %v", err)
	}
	if _, err := os.Stat(old); err != nil {
		t.Errorf("a file that is not understood was touched: %v", err)
	}
	keep(old, spec.All{Connectors: []spec.Connector{{Name: "c"}}})
	f.write = func(*os.File, []byte) error { return syscall.ENOSPC }
	if err := f.TakeOver(old); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	if got, err := NewFile(old).Load(); err != nil || len(got.Connectors) != 1 {
		t.Errorf("on a full disk the old file has %+v, %v", got, err)
	}
}

func TestBadFileIsLeftAlone(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "is damaged (unexpected end of JSON input)"},
		{"cut", `{"format": 1, "serv`, "is damaged (unexpected end of JSON input)"},
		{"later", `{"format": 3, "things": []}`, "has format 3, and this rdmad knows format 2"},
		{"other", `{}`, "has format 0, and this rdmad knows format 2"},
		{"unknown field", `{"format": 1, "servces": []}`, "is damaged, or from a newer rdmad (the file has invalid keys: servces)"},
		{"bad prefix", `{"format": 1, "listeners": [{"name": "a", "deny": ["x"]}]}`, "is damaged, or from a newer rdmad ("},
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

// TestFailedWriteChangesNothing: a write that fails at any length changes nothing and leaves
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
		if err := f.Save(spec.All{}); !errors.Is(err, syscall.ENOSPC) {
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
		var saved spec.All
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

// TestCrashLeavesOneFile: however often rdmad ends while it writes, one file is left,
// and it does not keep the next one from writing.
func TestCrashLeavesOneFile(t *testing.T) {
	dir := t.TempDir()
	f := NewFile(filepath.Join(dir, "listeners.json"))
	crash := errors.New("crash")
	f.write = func(file *os.File, b []byte) error {
		_, err := file.Write(b[:1])
		panic(errors.Join(err, crash))
	}
	for range 3 {
		func() {
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, crash) {
					t.Error(err)
				}
			}()
			_ = f.Save(everything)
		}()
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files are left, %v", len(all), err)
	}
	if err := NewFile(f.path).Save(everything); err != nil {
		t.Fatal(err)
	}
	got, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "loaded", got, everything)
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files, %v", len(all), err)
	}
}

// TestTooLongToLoad: what the next start would refuse is not stored.
func TestTooLongToLoad(t *testing.T) {
	f := NewFile(filepath.Join(t.TempDir(), "listeners.json"))
	if err := f.Save(everything); err != nil {
		t.Fatal(err)
	}
	long := spec.All{Services: []spec.Service{{Name: "a", NFS: &spec.NFS{Export: spec.Export{Path: "/" + strings.Repeat("x", maxFile)}}}}}
	if err := f.Save(long); err == nil || !strings.Contains(err.Error(), "would be longer than 16777216 bytes") {
		t.Errorf("saved: %v", err)
	}
	got, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	same(t, "loaded", got, everything)
}

// TestFailedSyncChangesNothing: when the name of the new file may not be on the disk, the earlier
// contents are back, or no file. The same where a file can't have a second name.
func TestFailedSyncChangesNothing(t *testing.T) {
	for name, link := range map[string]func(from, to string) error{
		"links":    os.Link,
		"no links": func(from, to string) error { return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EPERM} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := NewFile(filepath.Join(dir, "listeners.json"))
			rename := f.rename
			f.link = link
			fails := func(from, to string) error { return errors.Join(os.Rename(from, to), syscall.EIO) }
			for _, want := range []spec.All{{}, everything} {
				f.rename = fails
				if err := f.Save(spec.All{Connectors: []spec.Connector{{Name: "a"}}}); !errors.Is(err, syscall.EIO) {
					t.Errorf("error %v", err)
				}
				got, err := f.Load()
				if err != nil {
					t.Fatal(err)
				}
				same(t, "loaded", got, want)
				f.rename = rename
				if err := f.Save(everything); err != nil {
					t.Fatal(err)
				}
			}
			if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
				t.Errorf("%d files, %v", len(all), err)
			}
		})
	}
}

// TestTemporaryNameIsTaken: whatever has the name of the temporary file is not written to, and does
// not keep a change from being stored.
func TestTemporaryNameIsTaken(t *testing.T) {
	for name, take := range map[string]func(file, temporary string) error{
		"link":          os.Link,
		"symbolic link": os.Symlink,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := NewFile(filepath.Join(dir, "listeners.json"))
			if err := errors.Join(f.Save(everything), take(f.path, filepath.Join(dir, ".listeners.json.new"))); err != nil {
				t.Fatal(err)
			}
			write := f.write
			f.write = func(*os.File, []byte) error { return syscall.ENOSPC }
			if err := f.Save(spec.All{}); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("error %v", err)
			}
			got, err := f.Load()
			if err != nil {
				t.Fatal(err)
			}
			same(t, "loaded", got, everything)
			f.write = write
			if err := errors.Join(take(f.path, filepath.Join(dir, ".listeners.json.new")), f.Save(spec.All{})); err != nil {
				t.Error(err)
			}
		})
	}
}
