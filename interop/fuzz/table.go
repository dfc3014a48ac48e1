package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The table is between these lines of the page.
const (
	begins = "| target | executions | per second | found |\n|---|---:|---:|---|\n"
	sum    = "| **all** |"
)

// row has the counts of one target.
type row struct {
	executions uint64
	speed      uint64 // in the last slice
	found      string // free text, written by hand
}

type table struct {
	before, after string // the page around the table
	rows          map[string]row
}

// readTable reads the table in a page.
func readTable(file string) (*table, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseTable(string(text))
}

var errNoTable = errors.New("the page has no table of targets")

func parseTable(text string) (*table, error) {
	before, rest, ok := strings.Cut(text, begins)
	if !ok {
		return nil, errNoTable
	}
	t := &table{before: before, rows: make(map[string]row)}
	for {
		line, more, _ := strings.Cut(rest, "\n")
		if !strings.HasPrefix(line, "|") {
			t.after = rest
			return t, nil
		}
		rest = more
		if strings.HasPrefix(line, sum) {
			continue
		}
		name, r, err := parseRow(line)
		if err != nil {
			return nil, err
		}
		t.rows[name] = r
	}
}

func parseRow(line string) (name string, r row, err error) {
	cells := strings.Split(line, "|")
	if len(cells) != 6 {
		return "", row{}, fmt.Errorf("row %q has not four cells", line)
	}
	var errs [2]error
	r.executions, errs[0] = parseNumber(cells[2])
	r.speed, errs[1] = parseNumber(cells[3])
	r.found = strings.TrimSpace(cells[4])
	return strings.TrimSpace(cells[1]), r, errors.Join(errs[:]...)
}

func parseNumber(cell string) (uint64, error) {
	return strconv.ParseUint(strings.ReplaceAll(strings.TrimSpace(cell), ",", ""), 10, 64)
}

// add adds the result of a slice.
func (t *table) add(name string, r result) {
	now := t.rows[name]
	now.executions += r.executions
	now.speed = uint64(r.speed)
	t.rows[name] = now
}

func (t *table) String() string {
	var b strings.Builder
	b.WriteString(t.before + begins)
	var all uint64
	for _, name := range slices.Sorted(maps.Keys(t.rows)) {
		r := t.rows[name]
		all += r.executions
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, grouped(r.executions), grouped(r.speed), r.found)
	}
	fmt.Fprintf(&b, "%s %s | | |\n", sum, grouped(all))
	b.WriteString(t.after)
	return b.String()
}

// write replaces the page in one step. An interruption leaves a complete page.
func (t *table) write(file string) error {
	next := file + ".new"
	if err := os.WriteFile(next, []byte(t.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// grouped formats n with a comma between thousands.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
