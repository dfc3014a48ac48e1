package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query selects entries.
type Query struct {
	Before uint64    // only entries before this one; 0 for the newest
	Limit  int       // most entries of the answer
	Actor  string    // only this one's; "" for all
	Since  time.Time // only entries since then; zero for all
}

// List returns entries, the newest first, and whether there are more. A finished request has
// one entry, with the time of its end. A request that is not finished has one entry, with the
// time of its beginning. A damaged line becomes an entry that reports the damage.
func (l *Log) List(ctx context.Context, q Query) (entries []Entry, more bool, err error) {
	s, err := l.snapshot()
	if err != nil {
		return nil, false, err
	}
	defer s.current.Close()
	p := page{Query: q, begun: s.begun}
	if q.Actor != "" {
		actor, err := json.Marshal(q.Actor)
		if err != nil {
			return nil, false, err
		}
		p.actor = append([]byte(`"actor":`), actor...)
	}
	text, err := io.ReadAll(io.NewSectionReader(s.current, 0, s.size))
	if err != nil {
		return nil, false, err
	}
	end, next := p.take(text, s.first, s.next), s.first
	for i := len(s.older) - 1; i >= 0 && !end; i-- {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		first, after := firstOf(s.older[i]), next
		if next = first; q.Before != 0 && first >= q.Before {
			continue
		}
		text, err := os.ReadFile(s.older[i])
		if errors.Is(err, fs.ErrNotExist) {
			break // dropped meanwhile
		} else if err != nil {
			return nil, false, err
		}
		p.late = false
		end = p.take(text, first, after) || len(text) > 0 && !p.late
	}
	return p.entries, p.more, nil
}

// firstOf is the sequence in the name of a finished file.
func firstOf(name string) uint64 {
	digits := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), olderPrefix), olderSuffix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// snapshot is the log at one moment.
type snapshot struct {
	older   []string
	current *os.File
	size    int64  // also of what others wrote
	first   uint64 // sequence of the current file's first entry
	next    uint64 // sequence of the entry to come
	begun   map[uint64]*Entry
}

func (l *Log) snapshot() (s snapshot, err error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	if s.older, err = olderFiles(l.cfg.Dir); err != nil {
		return s, err
	}
	s.next, s.begun = l.at.sequence+1, maps.Clone(l.begun)
	s.first = cmp.Or(l.first, s.next)
	if s.current, err = os.Open(l.path()); err != nil {
		return s, err
	}
	info, err := s.current.Stat()
	if err != nil {
		s.current.Close()
		return s, err
	}
	s.size = info.Size()
	return s, nil
}

// page collects the entries of an answer.
type page struct {
	Query
	actor   []byte // how an entry of the actor has to read; nil for all
	begun   map[uint64]*Entry
	first   uint64   // sequence of the file's first entry
	last    uint64   // sequence of the entry before, nearer to the end
	lines   uint64   // after that, if they are no entries
	damaged []Entry  // of them, as many as may be entries
	earlier []uint64 // sequences of the lines to come; nil until an entry is missing
	late    bool     // a line of the file is not before Since
	entries []Entry
	more    bool
}

// take takes what it needs of a file, from its end, and says whether that was all. The file has
// the entries from first on, without next.
func (p *page) take(text []byte, first, next uint64) (end bool) {
	p.first, p.last, p.lines, p.earlier = first, next, 0, nil
	for len(text) > 0 {
		var line []byte
		if line, text = cutLast(text); p.line(line, text) {
			return true
		}
	}
	return p.takeDamaged(first - 1)
}

// cutLast cuts off the last line of text.
func cutLast(text []byte) (line, before []byte) {
	start := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	return text[start:], text[:start]
}

func (p *page) line(line, before []byte) (end bool) {
	e, _, err := parseLine(line)
	if err == nil {
		if len(p.earlier) > 0 {
			p.earlier = p.earlier[1:] // without this line
		}
		if p.copied(e.Sequence, before) {
			err = fmt.Errorf("a copy of entry %d", e.Sequence)
		}
	}
	if err != nil {
		p.late = true
		p.damage(err)
		return false
	}
	if p.takeDamaged(e.Sequence) {
		return true
	}
	p.last, p.lines = e.Sequence, 0
	early := e.Time.Before(p.Since)
	p.late = p.late || !early
	if p.Before != 0 && e.Sequence >= p.Before || early || p.hidden(e) || !p.wanted(line, e) { // an entry before an early one may be late: clocks jump
		return false
	}
	return p.add(e)
}

// copied reports whether a line is not at the place of its entry: that is in another file, has been
// seen already, or comes before a later one that stands before the line.
func (p *page) copied(sequence uint64, before []byte) bool {
	if sequence < p.first || sequence >= p.last {
		return true
	}
	if sequence+1 == p.last {
		return false
	}
	if p.earlier == nil {
		p.earlier = sequences(before)
	}
	return slices.ContainsFunc(p.earlier, func(s uint64) bool { return sequence < s && s < p.last })
}

// sequences returns those of the lines that are as they were written, from the end; not nil.
func sequences(text []byte) []uint64 {
	all := []uint64{}
	for len(text) > 0 {
		var line []byte
		line, text = cutLast(text)
		if e, _, err := parseLine(line); err == nil {
			all = append(all, e.Sequence)
		}
	}
	return all
}

// damage keeps a line that is not as it was written until the entry before it is known.
func (p *page) damage(err error) {
	p.lines++
	if p.lines >= p.last {
		return
	}
	sequence := p.last - p.lines
	if (p.Before == 0 || sequence < p.Before) && len(p.damaged) <= p.Limit {
		e := self(actionDamage, "DATA_LOSS", "not as it was written: "+err.Error())
		e.Sequence = sequence
		p.damaged = append(p.damaged, *e)
	}
}

// takeDamaged takes as many damaged lines as entries are missing after one of the sequence before.
// Others replace no entry: with a number they would hide an entry of the next page.
func (p *page) takeDamaged(before uint64) (end bool) {
	for i := range p.damaged {
		if e := &p.damaged[i]; e.Sequence > before && p.add(e) {
			return true
		}
	}
	p.damaged = p.damaged[:0]
	return false
}

func (p *page) add(e *Entry) (end bool) {
	if len(p.entries) == p.Limit {
		p.more = true
		return true
	}
	p.entries = append(p.entries, *e)
	return false
}

// hidden says whether another entry has the same information.
func (p *page) hidden(e *Entry) bool {
	return e.Outcome == Started && (e.Of != 0 || p.begun[e.Sequence] == nil)
}

func (p *page) wanted(line []byte, e *Entry) bool {
	return p.actor == nil || bytes.Contains(line, p.actor) && e.Actor == p.Actor
}
