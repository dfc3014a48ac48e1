package statefile

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io"
	"strings"
	"unicode"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// The file: bucket meta holds format, state, file and seen; scopes a layer by
// scope; history an entry by revision, big-endian. Every value is a CRC32C of
// bucket, key and text, big-endian, and the text: JSON.
const (
	bucketMeta    = "meta"
	bucketScopes  = "scopes"
	bucketHistory = "history"

	keyFormat = "format"
	keyState  = "state"
	keyFile   = "file"
	keySeen   = "seen"

	format = 1 // that this package writes and reads
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(bucket string, key, text []byte) uint32 {
	c := crc32.Update(0, castagnoli, append([]byte(bucket), 0))
	c = crc32.Update(c, castagnoli, append(bytes.Clone(key), 0))
	return crc32.Update(c, castagnoli, text)
}

// seal makes a value of its text.
func seal(bucket string, key []byte, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, sum(bucket, key, text)), text...), nil
}

// unseal is seal's inverse.
func unseal(bucket string, key, value []byte, v any) error {
	if len(value) < 4 || binary.BigEndian.Uint32(value) != sum(bucket, key, value[4:]) {
		return damaged("%s %q: wrong checksum", bucket, key)
	}
	dec := json.NewDecoder(bytes.NewReader(value[4:]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return damaged("%s %q: %v", bucket, key, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return damaged("%s %q: more than one value", bucket, key)
	}
	return nil
}

func historyKey(revision uint32) []byte { return binary.BigEndian.AppendUint32(nil, revision) }

// stateText counts what there must be, so that nothing can be missing.
type stateText struct {
	Revision uint32 `json:"revision"`
	Writes   uint64 `json:"writes"` // of this file
	Scopes   int    `json:"scopes"`
	Entries  int    `json:"entries"`
}

type layerText struct {
	Values map[string]string `json:"values,omitempty"`
	Set    map[string]uint32 `json:"set,omitempty"` // revisions
}

func textOfLayer(l *settings.Layer) layerText {
	t := layerText{Values: l.Values.Text(), Set: map[string]uint32{}}
	for _, k := range l.Values.Keys().Keys() {
		t.Set[k.String()] = l.Set[k]
	}
	return t
}

func (t *layerText) layer() (l settings.Layer, err error) {
	for name := range t.Values {
		if strings.ContainsFunc(name, unicode.IsControl) { // it would break the log's lines
			return l, damaged("setting %q", name)
		}
	}
	if l.Values, err = settings.ParseValues(t.Values); err != nil {
		return l, err
	}
	for name, revision := range t.Set {
		k, ok := settings.ParseKey(name)
		if !ok || !l.Values.Keys().Has(k) {
			return l, damaged("a revision of %q without a value", name)
		}
		l.Set[k] = revision
	}
	return l, nil
}

type fileText struct {
	Name   string            `json:"name,omitempty"`
	Values map[string]string `json:"values,omitempty"`
	Lines  map[string]int    `json:"lines,omitempty"`
}

func textOfFile(f *settings.FileLayer) fileText {
	t := fileText{Name: f.Name, Values: f.Values.Text(), Lines: map[string]int{}}
	for k, line := range f.Lines {
		if line != 0 {
			t.Lines[settings.Key(k).String()] = line
		}
	}
	return t
}

func (t *fileText) file() (f settings.FileLayer, err error) {
	f.Name = t.Name
	if f.Values, err = settings.ParseValues(t.Values); err != nil {
		return f, err
	}
	for name, line := range t.Lines {
		k, ok := settings.ParseKey(name)
		if !ok {
			return f, damaged("a line of %q", name)
		}
		f.Lines[k] = line
	}
	return f, nil
}

type deltaText struct {
	Scope  string    `json:"scope"`
	Before layerText `json:"before"`
	After  layerText `json:"after"`
}

type fileDeltaText struct {
	Before fileText `json:"before"`
	After  fileText `json:"after"`
}

// textOfStep leaves settings of connections out.
func textOfStep(s *settings.Step) (deltas []deltaText, file *fileDeltaText) {
	for _, d := range s.Deltas {
		if d.Scope.Kind != settings.Connection {
			deltas = append(deltas, deltaText{d.Scope.String(), textOfLayer(&d.Before), textOfLayer(&d.After)})
		}
	}
	if s.File != nil {
		file = &fileDeltaText{textOfFile(&s.File.Before), textOfFile(&s.File.After)}
	}
	return deltas, file
}

func (t *entryText) step() (s settings.Step, err error) {
	for i := range t.Deltas {
		d := settings.Delta{}
		if d.Scope, err = storedScope(t.Deltas[i].Scope); err != nil {
			return s, err
		}
		if d.Before, err = t.Deltas[i].Before.layer(); err != nil {
			return s, err
		}
		if d.After, err = t.Deltas[i].After.layer(); err != nil {
			return s, err
		}
		s.Deltas = append(s.Deltas, d)
	}
	if t.File != nil {
		s.File = new(settings.FileDelta)
		if s.File.Before, err = t.File.Before.file(); err != nil {
			return s, err
		}
		s.File.After, err = t.File.After.file()
	}
	return s, err
}

// storedScope reads a scope that outlives connections, in its one spelling.
func storedScope(text string) (settings.Scope, error) {
	scope, err := settings.ParseScope(text)
	if err != nil || scope.String() != text || scope.Kind == settings.Connection {
		return scope, damaged("scope %q", text)
	}
	return scope, nil
}

// kindOf and statusOf read names that a damaged or foreign file may not have.
func kindOf(name string) (history.Kind, error) {
	if k, ok := history.ParseKind(name); ok {
		return k, nil
	}
	return 0, damaged("kind %q", name)
}

func statusOf(name string) (history.Status, error) {
	if s, ok := history.ParseStatus(name); ok {
		return s, nil
	}
	return 0, damaged("status %q", name)
}
