package output

import (
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// Formats that answers can be written in.
const (
	FormatTable = "table"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
)

// Formats lists them.
var Formats = []string{FormatTable, FormatJSON, FormatYAML}

// KnownFormat says whether there is such a format.
func KnownFormat(name string) bool { return slices.Contains(Formats, name) }

// Printer writes answers in one format. Colours and the width of tables
// follow the terminal, if it is one.
type Printer struct {
	w       io.Writer
	format  string
	width   int // of the terminal; 0 for anything else
	colours bool
}

// NewPrinter writes to w.
func NewPrinter(w io.Writer, format string) *Printer {
	p := &Printer{w: w, format: format}
	if f, ok := w.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			p.width = int(size.Col)
			p.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		}
	}
	return p
}

// Answer writes m, or in table format what table makes of it.
func (p *Printer) Answer(m proto.Message, table func() *Table) error {
	if p.format == FormatTable {
		return table().write(p.w, p.width, p.colours)
	}
	return p.structured(m, JSON)
}

// Event writes one message of a stream: a line of JSON, a YAML document, or
// a line of text.
func (p *Printer) Event(m proto.Message, line func() []Cell) error {
	if p.format == FormatTable {
		return p.line(line())
	}
	if p.format == FormatYAML {
		if _, err := io.WriteString(p.w, "---\n"); err != nil {
			return err
		}
	}
	return p.structured(m, JSONLine)
}

func (p *Printer) line(cells []Cell) error {
	t := Table{Columns: make([]Column, len(cells))}
	t.Cells(cells...)
	return t.write(p.w, p.width, p.colours)
}

func (p *Printer) structured(m proto.Message, asJSON func(proto.Message) ([]byte, error)) error {
	encode := asJSON
	if p.format == FormatYAML {
		encode = YAML
	}
	out, err := encode(m)
	if err != nil {
		return err
	}
	_, err = p.w.Write(out)
	return err
}

// Note writes a line of text, in table format only: JSON and YAML say it in
// their fields.
func (p *Printer) Note(format string, args ...any) error {
	if p.format != FormatTable {
		return nil
	}
	_, err := io.WriteString(p.w, printable(fmt.Sprintf(format, args...))+"\n")
	return err
}
