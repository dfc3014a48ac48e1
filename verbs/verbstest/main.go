package verbstest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// Main runs a package's tests and fails if goroutines or sockets are left over. Call it
// from TestMain.
func Main(m *testing.M) {
	there, before := goleak.IgnoreCurrent(), sockets()
	code := m.Run()
	if err := goleak.Find(there); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines left over:", err)
		code = 1
	}
	if left := sockets() - before; left > 0 && code == 0 {
		fmt.Fprintln(os.Stderr, "sockets left open:", left)
		code = 1
	}
	os.Exit(code)
}

// sockets counts the process's open sockets. It returns 0 without /proc.
func sockets() int {
	const dir = "/proc/self/fd/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		// Descriptors that were closed meanwhile have no target.
		if to, err := os.Readlink(dir + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
