// Package rdmad_test holds the rules that no single room can check: who may
// import whom.
package rdmad_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/rdmad/rdmad/"

// rooms from the bottom up. A package belongs to the room with the longest
// matching path; it may import its own room and rooms further down, never up.
// Rooms with the same floor don't see each other.
var rooms = []struct {
	path  string
	floor int
}{
	{"verbs", 0},
	{"verbs/inventory", 0},
	{"verbs/offheap", 0},
	{"verbs/tcpaddr", 0},
	{"verbs/lease", 0},
	{"verbs/bulk", 0},
	{"verbs/notices", 0},
	{"verbs/peers", 1},
	{"verbs/rdmacm", 1},
	{"verbs/driver", 2},
	{"verbs/loopback", 3},
	{"verbs/softiwarp", 3},
	{"verbs/rdmacore", 3},
	{"verbs/verbstest", 4},
	{"rpcrdma/fair", 0},
	{"rpcrdma/internal/goxdr", 0},
	{"rpcrdma/xdr", 0},
	{"rpcrdma/oncrpc", 1},
	{"rpcrdma/slow", 2},
	{"rpcrdma/wire", 2},
	{"rpcrdma/chunk", 3},
	{"rpcrdma/credit", 3},
	{"rpcrdma/ulb", 3},
	{"rpcrdma/settings", 3},
	{"rpcrdma/conn/placement", 4},
	{"rpcrdma/conn/characteristics", 5},
	{"rpcrdma/conn/transmission", 5},
	{"rpcrdma/conn", 6},
	{"rpcrdma/referee", 1},
	{"rpcrdma/refereetest", 7},
	{"rpcrdma/transport", 7},
	{"rpcrdma", 8},
	{"dataplane/budget", 0},
	{"dataplane/clients", 0},
	{"dataplane/conditions", 0},
	{"dataplane/connlimit", 2},
	{"dataplane/descriptors", 0},
	{"dataplane/durable", 0},
	{"dataplane/procmem", 1},
	{"dataplane/loglimit", 0},
	{"dataplane/echo", 9},
	{"dataplane/nfs", 9},
	{"dataplane/rpctcp", 9},
	{"dataplane/perconn", 9},
	{"dataplane/nfstest", 10},
	{"dataplane/rpcbind", 10},
	{"dataplane/trace", 9},
	{"dataplane/iwarp", 0},
	{"dataplane/pcap", 10},
	{"dataplane/capture", 11},
	{"dataplane", 11},
	{"proto", 0},
	{"controlplane", 12},
	{"cmd", 13},
	{"interop", 14},
	{"interop/child", 0},
	{"interop/guest/image", 0},
	{"docs", 12},
}

// sansIO are the rooms without sockets, verbs, goroutines, locks or clock.
var sansIO = []string{"rpcrdma/xdr", "rpcrdma/wire", "rpcrdma/chunk", "rpcrdma/credit", "rpcrdma/ulb", "rpcrdma/settings", "rpcrdma/conn", "rpcrdma/referee"}

// reserved packages and the only rooms that may import them outside tests.
var reserved = []struct {
	pkg  string
	only []string
}{
	{"verbs/softiwarp", []string{"cmd/internal/providers", "cmd/rdmad"}},
	{"verbs/rdmacore", []string{"cmd/internal/providers", "cmd/rdmad"}},
	{"verbs/loopback", []string{"verbs/verbstest"}},
	{"verbs/verbstest", nil},
	{"dataplane/nfs", []string{"cmd/rdmad"}},
	{"dataplane/nfstest", []string{"cmd/rdmad/demo"}},
	{"dataplane/echo", []string{"cmd/rdmad"}},
	{"dataplane/forward", []string{"cmd/rdmad", "dataplane/metrics"}},
	{"proto", []string{"controlplane", "cmd/rdmactl"}},
}

func within(pkg, room string) bool { return pkg == room || strings.HasPrefix(pkg, room+"/") }

func withinAny(pkg string, list []string) bool {
	for _, r := range list {
		if within(pkg, r) {
			return true
		}
	}
	return false
}

func roomOf(pkg string) (name string, floor int, ok bool) {
	for _, r := range rooms {
		if within(pkg, r.path) && len(r.path) > len(name) {
			name, floor, ok = r.path, r.floor, true
		}
	}
	return name, floor, ok
}

// violation says what is wrong with pkg importing imp, or "".
func violation(pkg, imp string, test bool) string {
	if !test && withinAny(pkg, sansIO) {
		switch root, _, _ := strings.Cut(imp, "/"); {
		case imp == "net/netip":
		case root == "net" || imp == "os" || imp == "sync" || imp == "log/slog" || strings.HasPrefix(imp, module+"verbs"):
			return fmt.Sprintf("%s is sans-I/O and may not import %s", pkg, imp)
		}
	}
	if imp == "C" && !within(pkg, "verbs/rdmacore") {
		return pkg + " uses cgo, which belongs in verbs/rdmacore alone"
	}
	target, ours := strings.CutPrefix(imp, module)
	if !ours {
		return ""
	}
	from, fromFloor, ok := roomOf(pkg)
	if !ok {
		return pkg + " is in no room: add it to the table of rooms"
	}
	to, toFloor, ok := roomOf(target)
	if !ok {
		return target + " is in no room: add it to the table of rooms"
	}
	if from == to || test {
		return ""
	}
	for _, r := range reserved {
		if within(target, r.pkg) && !withinAny(pkg, r.only) && !within(pkg, r.pkg) && from != "interop" {
			return fmt.Sprintf("%s may not import %s: only %v and tests may", pkg, target, r.only)
		}
	}
	if toFloor >= fromFloor {
		return fmt.Sprintf("%s (floor %d) may not import %s (floor %d): arrows point down", pkg, fromFloor, target, toFloor)
	}
	return ""
}

func TestImportsPointDown(t *testing.T) {
	files, edges := 0, 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		pkg := path.Dir(filepath.ToSlash(name))
		if pkg == "." {
			return nil
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			edges++
			if v := violation(pkg, imp, strings.HasSuffix(name, "_test.go")); v != "" {
				t.Errorf("%s: %s", name, v)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 || edges < 10 {
		t.Fatalf("looked at %d files with %d imports only: is the test run at the top of the tree?", files, edges)
	}
}

// TestImportRuleBites plants what the rule must refuse.
func TestImportRuleBites(t *testing.T) {
	for _, c := range []struct {
		pkg, imp  string
		test, bad bool
	}{
		{"rpcrdma/conn", "net", false, true},
		{"rpcrdma/conn", "sync", false, true},
		{"rpcrdma/conn", "net/netip", false, false},
		{"rpcrdma/conn", module + "verbs", false, true},
		{"rpcrdma/conn", module + "rpcrdma/credit", false, false},
		{"rpcrdma/conn", module + "rpcrdma/transport", false, true},
		{"rpcrdma/conn", module + "rpcrdma/conn/characteristics", false, false},
		{"rpcrdma/conn/characteristics", module + "rpcrdma/conn/placement", false, false},
		{"rpcrdma/conn/characteristics", module + "rpcrdma/conn", false, true},
		{"rpcrdma/conn/transmission", module + "rpcrdma/conn/characteristics", false, true},
		{"rpcrdma/conn/placement", module + "rpcrdma/conn/transmission", false, true},
		{"rpcrdma/transport", module + "verbs/softiwarp", false, true},
		{"rpcrdma/transport", module + "verbs/softiwarp", true, false},
		{"verbs/softiwarp", module + "verbs/softiwarp/internal/mpa", false, false},
		{"verbs/softiwarp", module + "verbs/loopback", false, true},
		{"verbs", module + "rpcrdma/xdr", false, true},
		{"dataplane", module + "dataplane/nfs", false, true},
		{"dataplane/nfs", module + "dataplane", false, true},
		{"dataplane", module + "proto/rdmad/v1", false, true},
		{"controlplane", module + "proto/rdmad/v1", false, false},
		{"cmd/rdmad", module + "verbs/softiwarp", false, false},
		{"cmd/internal/providers", module + "verbs/softiwarp", false, false},
		{"cmd/rdmactl", module + "verbs/softiwarp", false, true},
		{"cmd/rdmactl", module + "cmd/internal/providers", false, false},
		{"verbs/softiwarp", "C", false, true},
		{"dataplane/rpcbind/rpcbindtest", module + "interop/guest/image", false, false},
		{"dataplane/rpcbind/rpcbindtest", module + "interop/guest", false, true},
		{"elsewhere", module + "verbs", false, true},
	} {
		if got := violation(c.pkg, c.imp, c.test); (got != "") != c.bad {
			t.Errorf("%s imports %s (test %v): got %q, want a violation: %v", c.pkg, c.imp, c.test, got, c.bad)
		}
	}
}
