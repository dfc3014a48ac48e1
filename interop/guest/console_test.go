package guest

import (
	"strings"
	"testing"
)

func TestConsoleOops(t *testing.T) {
	tests := []struct {
		name   string
		writes []string
		want   string
	}{
		{"quiet", []string{"[    1.0] Freeing unused kernel memory\n"}, ""},
		{"warning only", []string{"[    1.0] WARNING: CPU: 0 PID: 1 at net/core\n"}, ""},
		{"panic", []string{"[  1.0] Kernel panic - not syncing: x\r\n"}, "[  1.0] Kernel panic - not syncing: x"},
		{"split", []string{"[  1.0] BUG: unable to ha", "ndle page fault\n"}, "[  1.0] BUG: unable to handle page fault"},
		{"where", []string{`[  9.1] BUG: kernel NULL pointer dereference, address: 0000000000000028
[  9.1] #PF: supervisor read access in kernel mode
[  9.1] CPU: 1 UID: 0 PID: 88 Comm: kworker/u10:1 Not tainted 6.12.95 #1
[  9.1] Workqueue: ib-comp-unb-wq ib_cq_poll_work [ib_core]
[  9.1] RIP: 0010:one_fn.constprop.0+0x1b/0xa0 [siw]
[  9.1] Code: 00 00
[  9.1] Call Trace:
[  9.1]  <TASK>
[  9.1]  ? __die+0x23/0x70
[  9.1]  two_fn+0x42/0x90 [rpcrdma]
[  9.1]  three_fn+0x83/0x1a0
`}, "[  9.1] BUG: kernel NULL pointer dereference, address: 0000000000000028; " +
			"Workqueue: ib-comp-unb-wq ib_cq_poll_work [ib_core]; RIP: 0010:one_fn.constprop.0+0x1b/0xa0 [siw]; " +
			"two_fn+0x42/0x90 [rpcrdma]; three_fn+0x83/0x1a0"},
		{"the first of two", []string{"Oops: 0002\nKernel panic - not syncing\n"}, "Oops: 0002"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var c console
			for _, w := range test.writes {
				if n, err := c.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("wrote %d of %d bytes: %v", n, len(w), err)
				}
			}
			if got := c.Oops(); got != test.want {
				t.Errorf("oops %q, want %q", got, test.want)
			}
		})
	}
}

func TestConsoleIsBounded(t *testing.T) {
	var c console
	line := strings.Repeat("x", 1023) + "\n"
	for range 4 * consoleLimit / len(line) {
		c.Write([]byte(line))
	}
	c.Write([]byte("last\n"))
	if got := c.String(); len(got) != consoleLimit || !strings.HasSuffix(got, "last\n") {
		t.Errorf("%d bytes kept, ending in %q; want the last %d", len(got), got[len(got)-8:], consoleLimit)
	}
	if cap(c.text) > 4*consoleLimit {
		t.Errorf("room for %d bytes", cap(c.text))
	}
}
