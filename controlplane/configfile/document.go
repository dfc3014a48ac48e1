package configfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Document is a text that is being read.
type Document struct {
	File    string
	Origins Origins
	errs    Errors
	// misspelt are the keys that are unknown.
	misspelt map[string]bool
}

// NewDocument returns a document of which nothing has been read yet.
func NewDocument(file string) *Document {
	return &Document{File: file, Origins: Origins{}, misspelt: map[string]bool{}}
}

// Source returns the origin of a node of a text.
type Source func(n *yaml.Node) Origin

// FileSource is the Source of the nodes of a file.
func (d *Document) FileSource(n *yaml.Node) Origin { return Origin{File: d.File, Line: n.Line} }

// Entry is a key of a mapping, with its value.
type Entry struct {
	Key   string // with those around it
	Name  string // alone
	At    Origin
	Value *yaml.Node
}

// Empty reports whether the entry has no value.
func (e *Entry) Empty() bool { return e.Value.Kind == yaml.ScalarNode && e.Value.Tag == "!!null" }

// Entries returns the entries of a mapping. It notes wrong ones and leaves them out: those that
// occur twice, and those for which unknown returns a mistake. ok is false if the node is no
// mapping.
func (d *Document) Entries(key string, n *yaml.Node, from Source, unknown func(name string) string) (all []Entry, ok bool) {
	if n.Kind == yaml.AliasNode {
		d.Wrong(key, from(n), "an alias; write the value out")
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		d.Wrong(key, from(n), "must be a mapping of keys to values")
		return nil, false
	}
	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i]
		e := Entry{strings.TrimPrefix(key+"."+name.Value, "."), name.Value, from(name), n.Content[i+1]}
		if first, ok := d.Origins[e.Key]; ok {
			d.Wrong(e.Key, e.At, fmt.Sprintf("already given in line %d", first.Line))
			continue
		}
		d.Origins[e.Key] = e.At
		if text := unknown(e.Name); text != "" {
			d.misspelt[e.Key] = true
			d.Wrong(e.Key, e.At, text)
			continue
		}
		all = append(all, e)
	}
	return all, true
}

// Unknown returns the mistake of a key that does not exist.
func Unknown(known []string) string {
	if len(known) == 0 {
		return "unknown key; there are none here"
	}
	return "unknown key; known here: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
}

// Fail notes an error of a key, at its line or that of the nearest key around it. It notes
// nothing if the key has an error already, or if its section has an unknown key, which may be
// this one with a spelling mistake.
func (d *Document) Fail(key, format string, args ...any) {
	misspelt := func(e *Error) bool { return d.misspelt[e.Key] && section(e.Key) == section(key) }
	if d.errs.Concern(key) || slices.ContainsFunc(d.errs, misspelt) {
		return
	}
	d.Wrong(key, d.Origins.Of(key), fmt.Sprintf(format, args...))
}

func section(key string) string { return key[:max(strings.LastIndexByte(key, '.'), 0)] }

// Wrong notes an error of a value.
func (d *Document) Wrong(key string, at Origin, msg string) {
	if at == (Origin{}) {
		at.File = d.File
	}
	d.errs = append(d.errs, &Error{Origin: at, Key: key, Msg: msg})
}

// Err returns the errors so far, in the order of lines, or nil.
func (d *Document) Err() error {
	if len(d.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(d.errs, func(a, b *Error) int { return a.Line - b.Line })
	return d.errs
}

// Given reports whether a key has a value that is not a default.
func (d *Document) Given(key string) bool {
	_, ok := d.Origins[key]
	return ok
}
