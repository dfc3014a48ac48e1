package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// attempts are how often a file that another process writes to is read.
const attempts = 5

// RefusedError means that a file is damaged or of another version.
type RefusedError struct {
	Path string
	Err  error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: %s; nothing was changed in it: put back a copy, or move it and %s away to begin with the configuration file's settings alone",
		e.Path, strings.Map(printable, e.Err.Error()), filepath.Base(segments(e.Path)))
}

func (e *RefusedError) Unwrap() error { return e.Err }

// printable keeps what a file says in one line.
func printable(r rune) rune {
	if !strconv.IsPrint(r) {
		return '?'
	}
	return r
}

// Read returns the contents of a file, even while a running rdmad writes to it. Errors:
// os.ErrNotExist, *RefusedError, and those of reading.
func Read(path string) (c *Contents, err error) {
	for range attempts {
		// A segment that a file names may be gone when the file was replaced
		// meanwhile.
		if _, c, _, err = load(path); !errors.Is(err, errDamaged) {
			break
		}
	}
	return c, err
}

// load reads a file with its segments; data is the file as it is.
func load(path string) (s *snapshot, c *Contents, data []byte, err error) {
	data, err = readWhole(path)
	if err == nil && isOld(data) {
		s, err = readOld(path)
	} else if err == nil {
		s, err = parse(data)
	}
	var lines [][]byte
	if err == nil {
		lines, err = s.readSegments(segments(path))
	}
	if err == nil {
		c, err = s.contents(lines)
	}
	if newer := new(NewerError); errors.Is(err, errDamaged) || errors.Is(err, errStrange) || errors.As(err, &newer) {
		err = &RefusedError{Path: path, Err: err}
	}
	return s, c, data, err
}

// isOld says that a file is not of this format, but perhaps of the one before.
func isOld(data []byte) bool { return !bytes.HasPrefix(data, []byte(sealPrefix)) }

// parse reads a file, without its segments.
func parse(data []byte) (*snapshot, error) {
	lines, err := unseal(data)
	if err != nil {
		return nil, err
	}
	s := &snapshot{tail: lines[1:]}
	return s, decode(lines[0], &s.state)
}

// readSegments gives the lines of all segments, of bounded size together.
func (s *snapshot) readSegments(dir string) (out [][]byte, err error) {
	room := maxFile
	for i := range s.Segments {
		g := &s.Segments[i]
		data, err := readWhole(filepath.Join(dir, g.name()))
		if errors.Is(err, os.ErrNotExist) {
			return nil, damaged("no %s in %s", g.name(), dir)
		}
		if err != nil {
			return nil, err
		}
		lines, ok := g.lines(data)
		if room -= len(data); !ok || room < 0 {
			return nil, damaged("%s in %s is not what was written", g.name(), dir)
		}
		out = append(out, lines...)
	}
	return out, nil
}

// lines reads a segment; ok is false when it is another one than g.
func (g *segment) lines(data []byte) (lines [][]byte, ok bool) {
	if sum(data) != g.Sum {
		return nil, false
	}
	lines, err := unseal(data)
	return lines, err == nil && len(lines) == int(g.Entries)
}
