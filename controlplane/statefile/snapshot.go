package statefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// maxTail is the size of the entries in the file, in bytes, from which on all but
// the newest go into a segment: each revision writes the file anew.
const maxTail = 32 << 10

// snapshot is what a file holds. It is immutable.
type snapshot struct {
	state
	tail [][]byte // lines of the newest entries up to Revision
}

// state is the file's line before the entries.
type state struct {
	Revision   uint32                             `json:"revision"`
	Oldest     uint32                             `json:"oldest"` // revision in the history; Revision+1 in an empty one
	Scopes     map[settings.Scope]settings.Layer  `json:"scopes"`
	File       settings.FileLayer                 `json:"file"`
	Fleet      settings.FleetLayer                `json:"fleet,omitzero"`
	Seen       settings.Values                    `json:"seen"` // at the global scope
	SeenScopes map[settings.Scope]settings.Values `json:"seen_scopes,omitempty"`
	Elements   json.RawMessage                    `json:"elements,omitempty"` // of an import that is not done
	Segments   []segment                          `json:"segments,omitempty"` // the oldest first
}

// segment is a file with entries.
type segment struct {
	First   uint32 `json:"first"` // revision
	Entries uint32 `json:"entries"`
	Sum     uint32 `json:"crc32c"` // of the whole file
}

// name is the segment's file name: another segment has another one.
func (g *segment) name() string { return fmt.Sprintf("%010d-%08x", g.First, g.Sum) }

// see notes the values that the configuration file gives now.
func (s *state) see(f *settings.FileLayer) {
	s.Seen, s.SeenScopes = f.Values, make(map[settings.Scope]settings.Values)
	for scope, v := range f.Scopes {
		s.SeenScopes[scope] = v.Values
	}
}

// seen are those values as a layer.
func (s *state) seen() settings.FileLayer {
	f := settings.FileLayer{Values: s.Seen}
	for scope, v := range s.SeenScopes {
		if f.Scopes == nil {
			f.Scopes = make(map[settings.Scope]settings.FileValues)
		}
		f.Scopes[scope] = settings.FileValues{Values: v}
	}
	return f
}

// text is the file, padded to whole blocks by spaces behind the state.
func (s *snapshot) text() ([]byte, error) {
	line, err := json.Marshal(&s.state)
	size := len(sealLine(format, nil)) + len(line) + 1
	for _, entry := range s.tail {
		size += len(entry) + 1
	}
	line = append(line, bytes.Repeat([]byte{' '}, -size&(block-1))...)
	return seal(append([][]byte{line}, s.tail...)...), err
}

// decode reads one JSON value and nothing else. The checksum of the text was right.
func decode(text []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w (%w)", errStrange, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return damaged("more than one value")
	}
	return nil
}

// after is the snapshot that r makes of s.
func (s *snapshot) after(r *Record) (*snapshot, error) {
	next := *s
	next.tail = slices.Clone(s.tail)
	if n := len(r.Drop); n > 0 {
		next.Oldest = r.Drop[n-1] + 1
	}
	if e := r.Amend; e != nil {
		if e.Revision != s.Revision || len(s.tail) == 0 {
			return nil, fmt.Errorf("revision %d is not the newest", e.Revision)
		}
		next.tail = next.tail[:len(s.tail)-1]
		if err := next.add(e); err != nil {
			return nil, err
		}
	}
	if r.Seen != nil {
		next.see(r.Seen)
	}
	if r.Elements != nil || r.ElementsDone {
		next.Elements = r.Elements
	}
	if e := r.Entry; e != nil {
		next.step(e)
		if err := next.add(e); err != nil {
			return nil, err
		}
	}
	next.forget()
	return &next, nil
}

// add appends the line of an entry, without settings of connections.
func (s *snapshot) add(e *history.Entry) error {
	stored := *e
	stored.Step.Deltas = slices.DeleteFunc(slices.Clone(e.Step.Deltas), func(d settings.Delta) bool {
		return d.Scope.Kind == settings.Connection
	})
	line, err := json.Marshal(&stored)
	s.tail = append(s.tail, line)
	return err
}

func (s *snapshot) step(e *history.Entry) {
	s.Revision, s.Scopes = e.Revision, maps.Collect(maps.All(s.Scopes)) // never nil
	for _, d := range e.Step.Deltas {
		if d.After.Values.Keys() == 0 {
			delete(s.Scopes, d.Scope)
		} else if d.Scope.Kind != settings.Connection {
			s.Scopes[d.Scope] = d.After
		}
	}
	if e.Step.File != nil {
		s.File = e.Step.File.After
	}
	if e.Step.Fleet != nil {
		s.Fleet = e.Step.Fleet.After
	}
}

// forget drops the segments and lines before Oldest.
func (s *snapshot) forget() {
	s.Segments = slices.DeleteFunc(slices.Clone(s.Segments), func(g segment) bool { return g.First+g.Entries <= s.Oldest })
	s.tail = s.tail[max(0, len(s.tail)-int(s.Revision+1-s.Oldest)):]
}

// spill moves the entries into a new segment, when they are longer than limit. It gives the
// segment's text, nil when there is none. The newest entry stays, so that it can be
// amended.
func (s *snapshot) spill(limit int) (text []byte) {
	size, n := 0, len(s.tail)-1
	for _, line := range s.tail {
		size += len(line)
	}
	if size <= limit || n == 0 {
		return nil
	}
	text = seal(s.tail[:n]...)
	g := segment{First: s.Revision - uint32(n), Entries: uint32(n), Sum: sum(text)}
	s.Segments, s.tail = append(s.Segments, g), s.tail[n:]
	return text
}

// contents reads the entries too; older are the lines of all segments.
func (s *snapshot) contents(older [][]byte) (*Contents, error) {
	c := &Contents{Revision: s.Revision, Layers: s.Scopes, File: s.File, Fleet: s.Fleet, Seen: s.seen(), Elements: s.Elements}
	for scope := range s.Scopes {
		if scope.Kind == settings.Connection {
			return nil, damaged("scope %s", scope)
		}
	}
	lines := append(older, s.tail...)
	n := int64(s.Revision) + 1 - int64(s.Oldest)
	if n < 0 || n > history.MaxEntries || n == 0 && s.Revision > 0 || n > int64(len(lines)) {
		return nil, damaged("%d revisions for those from %d to %d", len(lines), s.Oldest, s.Revision)
	}
	for i, line := range lines[int64(len(lines))-n:] {
		e := new(history.Entry)
		if err := decode(line, e); err != nil {
			return nil, err
		}
		switch pending := e.Status == history.Pending; {
		case e.Revision != s.Oldest+uint32(i):
			return nil, damaged("revision %d in the place of %d", e.Revision, s.Oldest+uint32(i))
		case pending && e.Revision != s.Revision:
			return nil, damaged("revision %d waits to be confirmed after revision %d", e.Revision, s.Revision)
		case pending && !e.Deadline.After(e.Time):
			return nil, damaged("a confirm window that ends before it begins")
		}
		c.Entries = append(c.Entries, e)
	}
	return c, nil
}
