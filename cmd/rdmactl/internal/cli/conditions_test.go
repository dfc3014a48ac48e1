package cli

import (
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestRemediesAreNotCut: a terminal shows what to do as a whole, however narrow it is.
func TestRemediesAreNotCut(t *testing.T) {
	screen, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	defer program.Close()
	if err := pty.Setsize(screen, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	const remedy, end = "put the file system back that rdmad serves, or restart rdmad to serve the new one", "\x00"
	table := func() *output.Table {
		return conditionTable([]*rdmadv1.Condition{{
			Kind: "export", Name: "data", Status: rdmadv1.Condition_FAILED, Reason: "Replaced",
			Message: "/srv/data is device 8:1 inode 131073, but device 253:2 inode 2 is served", Remedy: remedy,
		}})
	}
	if err := output.NewPrinter(program, output.FormatTable).Answer(nil, table); err != nil {
		t.Fatal(err)
	}
	if _, err := program.WriteString(end); err != nil {
		t.Fatal(err)
	}
	var shown string
	for buf := make([]byte, 4096); !strings.HasSuffix(shown, end); {
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(buf[:n])
	}
	if !strings.Contains(shown, "→ "+remedy+"\r\n") {
		t.Errorf("%q", shown)
	}
}
