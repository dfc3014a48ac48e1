package output

import (
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// openTerminal opens a pseudo-terminal of so many columns.
func openTerminal(t *testing.T, columns uint16) (screen, program *os.File) {
	t.Helper()
	screen, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		screen.Close()
		program.Close()
	})
	if err := pty.Setsize(screen, &pty.Winsize{Cols: columns, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	return screen, program
}

// shown is what a terminal gets to see of an answer.
func shown(t *testing.T, columns uint16) string {
	t.Helper()
	screen, program := openTerminal(t, columns)
	if err := NewPrinter(program, FormatTable).Answer(&rdmadv1.GetStatusResponse{}, sample); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(allShown(t, screen, program), "\r\n", "\n")
}

// allShown is all that a terminal has got to see. A read may return any part of it.
func allShown(t *testing.T, screen, program *os.File) (all string) {
	t.Helper()
	const end = "\x00"
	if _, err := program.WriteString(end); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 4096); ; {
		n, err := screen.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if all += string(buf[:n]); strings.HasSuffix(all, end) {
			return strings.TrimSuffix(all, end)
		}
	}
}

func TestTerminalGetsColoursAndWidth(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if got := shown(t, 12); !strings.HasPrefix(got, "\x1b[1mID") || !strings.Contains(got, "a rathe…\n") {
		t.Errorf("%q", got)
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			if got := shown(t, 80); strings.Contains(got, "\x1b") {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestFileGetsNeither(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := NewPrinter(f, FormatTable).Answer(&rdmadv1.GetStatusResponse{}, sample); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil || string(got) != text(t, sample(), 0, false) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestEventsAndNotesByFormat(t *testing.T) {
	for format, want := range map[string]string{
		FormatTable: "what  7\nsaid\n",
		FormatJSON:  `{"id":"7"}` + "\n",
		FormatYAML:  "---\nid: \"7\"\n",
	} {
		var out strings.Builder
		p := NewPrinter(&out, format)
		if err := p.Event(&rdmadv1.CloseConnectionRequest{Id: "7"}, func() []Cell { return []Cell{{Text: "what"}, {Text: "7"}} }); err != nil {
			t.Fatal(err)
		}
		if err := p.Note("said"); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("%s: %q, want %q", format, out.String(), want)
		}
	}
}

// TestColoursAsAsked: always wins over NO_COLOR and pipes, never over
// terminals.
func TestColoursAsAsked(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for when, want := range map[string]bool{ColourAlways: true, ColourNever: false, ColourAuto: false} {
		var out strings.Builder
		if err := NewPrinter(&out, FormatTable).Colours(when).Answer(&rdmadv1.GetStatusResponse{}, sample); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "\x1b["); got != want {
			t.Errorf("%s: %q", when, out.String())
		}
	}
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	_, program := openTerminal(t, 80)
	if !NewPrinter(program, FormatTable).colours || NewPrinter(program, FormatTable).Colours(ColourNever).colours {
		t.Error("a terminal's colours don't follow")
	}
}
