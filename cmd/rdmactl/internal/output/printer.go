package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// Formats that answers can be written in.
const (
	FormatTable = "table"
	FormatJSON  = "json"
	FormatYAML  = "yaml"
)

// Formats lists the formats.
var Formats = []string{FormatTable, FormatJSON, FormatYAML}

// When there are colours.
const (
	ColourAuto   = "auto" // on a terminal, unless NO_COLOR or TERM=dumb is set
	ColourAlways = "always"
	ColourNever  = "never"
)

// Colourings lists the values of --color.
var Colourings = []string{ColourAuto, ColourAlways, ColourNever}

// Printer writes answers in one format. Colours and the width of tables
// follow the terminal, if it is one.
type Printer struct {
	w       io.Writer
	format  string
	width   int // of the terminal; 0 for anything else
	colours bool
}

// NewPrinter returns a printer that writes to w.
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

// Colours overrides the choice by terminal and NO_COLOR, unless when is ColourAuto.
func (p *Printer) Colours(when string) *Printer {
	if when != ColourAuto {
		p.colours = when == ColourAlways
	}
	return p
}

// Answer writes v as JSON or YAML, or in table format the result of table. The JSON of a
// message is protobuf's, that of other values encoding/json's.
func (p *Printer) Answer(v any, table func() *Table) error {
	if p.format == FormatTable {
		return table().write(p.w, p.width, p.colours)
	}
	raw, err := jsonLine(v)
	if err != nil {
		return err
	}
	return p.raw(raw, true)
}

// Event writes one v of a stream: a line of JSON, a YAML document, or a line
// of text.
func (p *Printer) Event(v any, line func() []Cell) error {
	if p.format == FormatTable {
		return p.line(line())
	}
	raw, err := jsonLine(v)
	if err != nil {
		return err
	}
	if p.format == FormatYAML {
		if _, err := io.WriteString(p.w, "---\n"); err != nil {
			return err
		}
	}
	return p.raw(raw, false)
}

// Line writes a line of cells, in table format only.
func (p *Printer) Line(cells ...Cell) error {
	if p.format != FormatTable {
		return nil
	}
	return p.line(cells)
}

func (p *Printer) line(cells []Cell) error {
	t := Table{Columns: make([]Column, len(cells))}
	t.Cells(cells...)
	return t.write(p.w, p.width, p.colours)
}

// raw writes JSON, indented or on one line, or as YAML.
func (p *Printer) raw(raw []byte, indent bool) error {
	out := append(raw, '\n')
	switch {
	case p.format == FormatYAML:
		var err error
		if out, err = yamlOf(raw); err != nil {
			return err
		}
	case indent:
		var b bytes.Buffer
		if err := json.Indent(&b, out, "", "  "); err != nil {
			return err
		}
		out = b.Bytes()
	}
	_, err := p.w.Write(out)
	return err
}

// Note writes a line of text, in table format only: JSON and YAML have its content in their
// fields.
func (p *Printer) Note(format string, args ...any) error {
	if p.format != FormatTable {
		return nil
	}
	_, err := io.WriteString(p.w, terminal.Printable(fmt.Sprintf(format, args...))+"\n")
	return err
}
