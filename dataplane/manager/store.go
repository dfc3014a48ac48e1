package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/dataplane/durable"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Store keeps what operators added across restarts.
type Store interface {
	// Load returns what was saved last, or the zero value if nothing was saved.
	Load() (spec.All, error)
	// Save stores all of s, even if the machine fails right afterwards. On an error the
	// earlier contents stay.
	Save(s spec.All) error
}

// fileFormat is the number of the file's format. Format 2 has the keys and values of the
// configuration file.
const fileFormat = 2

// importsKey is the key of the number of imports.
const importsKey = "imports"

// changedKey is the key of what operators changed of the configuration file's elements and
// limits.
const changedKey = "changed"

// maxFile bounds the file, in bytes, so that a wrong file is not read completely.
const maxFile = 16 << 20

// File is a Store in one JSON file, in an existing directory. The file contains the
// specifications and the number of the format.
type File struct {
	path   string
	write  func(f *os.File, b []byte) error // tests simulate disk failures with it
	rename func(from, to string) error      // and with this one; durable.Rename
	link   func(from, to string) error      // and file systems without links with this one; os.Link
}

var _ Store = (*File)(nil)

// NewFile returns a store in a file. The file may be missing.
func NewFile(path string) *File {
	return &File{path: path, rename: durable.Rename, link: os.Link, write: func(f *os.File, b []byte) error {
		_, err := f.Write(b)
		return err
	}}
}

// TakeOver moves the connectors from the separate file of an earlier rdmad into this file. It
// changes nothing if there is no such file. It can be repeated if it was interrupted.
func (f *File) TakeOver(old string) error {
	there, err := NewFile(old).Load()
	if err == nil && len(there.Connectors) > 0 {
		err = f.add(there.Connectors)
	}
	if err != nil {
		return fmt.Errorf("connectors added before: %w", err)
	}
	if err := os.Remove(old); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return durable.SyncDir(filepath.Dir(old))
}

// add saves further connectors.
func (f *File) add(more []spec.Connector) error {
	all, err := f.Load()
	if err != nil {
		return err
	}
	for _, c := range more {
		if !slices.ContainsFunc(all.Connectors, func(o spec.Connector) bool { return o.Name == c.Name }) {
			all.Connectors = append(all.Connectors, c)
		}
	}
	return f.Save(all)
}

// Load implements Store. If the file is not valid, Load returns an error and leaves the file
// unchanged.
func (f *File) Load() (all spec.All, err error) {
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return all, err
	}
	if err := decodeFile(b, &all); err != nil {
		return all, fmt.Errorf("%s: %w; restore it, or move it away to start without what was added", f.path, err)
	}
	return all, nil
}

func decodeFile(b []byte, s *spec.All) (err error) {
	if len(b) > maxFile {
		return fmt.Errorf("is longer than %d bytes", maxFile)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return fmt.Errorf("is damaged (%w)", err)
	}
	if head.Format != fileFormat && head.Format != oldFormat {
		return fmt.Errorf("has format %d, and this rdmad knows format %d", head.Format, fileFormat)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	values := map[string]any{}
	if err := dec.Decode(&values); err != nil {
		return fmt.Errorf("is damaged (%w)", err)
	}
	delete(values, "format")
	if n, ok := values[importsKey].(json.Number); ok {
		if s.Imports, err = strconv.ParseUint(n.String(), 10, 64); err != nil {
			return fmt.Errorf("is damaged (%w)", err)
		}
		delete(values, importsKey)
	}
	if err := takeChanges(values, &s.Changed); err != nil {
		return fmt.Errorf("is damaged, or from a newer rdmad (%s: %s)", changedKey, oneLine(err))
	}
	if head.Format == oldFormat {
		convertOld(values)
	}
	if err := spec.Decode(values, s); err != nil {
		return fmt.Errorf("is damaged, or from a newer rdmad (%s)", oneLine(err))
	}
	return nil
}

// takeChanges moves the changes out of the values of a file.
func takeChanges(values map[string]any, to *spec.Changes) error {
	changed := values[changedKey]
	delete(values, changedKey)
	if changed == nil {
		return nil
	}
	return spec.Decode(map[string]any{changedKey: changed}, &struct {
		Changed *spec.Changes `mapstructure:"changed"`
	}{to})
}

// oneLine returns the first error of those that a decoder lists.
func oneLine(err error) string {
	_, list, found := strings.Cut(err.Error(), "\n\n")
	if !found {
		list = err.Error()
	}
	first, _, _ := strings.Cut(strings.TrimSpace(list), "\n")
	return strings.Replace(first, "'spec.All' has", "the file has", 1)
}

// Encode returns the contents of a File. It fails if Load would refuse them for their length.
func Encode(s spec.All) ([]byte, error) {
	values := spec.Encode(s)
	values["format"] = fileFormat
	if s.Imports > 0 {
		values[importsKey] = s.Imports
	}
	if !s.Changed.None() {
		values[changedKey] = spec.Encode(s.Changed)
	}
	b, err := json.MarshalIndent(values, "", "  ")
	if b = append(b, '\n'); err == nil && len(b) > maxFile {
		return nil, fmt.Errorf("services, listeners and connectors would be longer than %d bytes in their file", maxFile)
	}
	return b, err
}

// Decode is the inverse of Encode.
func Decode(b []byte) (all spec.All, err error) {
	err = decodeFile(b, &all)
	return all, err
}

// Save implements Store. The new file replaces the old one when it is on the disk.
func (f *File) Save(s spec.All) (err error) {
	b, err := Encode(s)
	if err != nil {
		return err
	}
	next := f.beside(".new")
	if err := f.create(next, b); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(next)
		}
	}()
	return f.replace(next)
}

// beside returns the path of a temporary file.
func (f *File) beside(end string) string {
	return filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+end)
}

// create makes a temporary file, which is on the disk when create returns. A file that already has
// this name is removed first: after a crash it may be another name of a file that is in use.
func (f *File) create(path string, b []byte) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = f.write(file, b)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// replace gives the file the contents of another one. If they may not be on the disk, the earlier
// contents, which are, come back.
func (f *File) replace(next string) error {
	earlier := f.beside(".old")
	kept := f.keep(earlier)
	if kept != nil && !errors.Is(kept, os.ErrNotExist) {
		return kept
	}
	defer os.Remove(earlier)
	err := f.rename(next, f.path)
	switch {
	case err == nil:
		return nil
	case kept != nil: // there was no file
		os.Remove(f.path)
		return err
	}
	return errors.Join(err, os.Rename(earlier, f.path))
}

// keep gives the contents of the file another name too. Where a link is not possible, it copies
// them: on some file systems, and if the file is another user's.
func (f *File) keep(earlier string) error {
	if err := os.Remove(earlier); err != nil && !errors.Is(err, os.ErrNotExist) { // of a crash
		return err
	}
	linked := f.link(f.path, earlier)
	if linked == nil || errors.Is(linked, os.ErrNotExist) {
		return linked
	}
	b, err := os.ReadFile(f.path)
	if err != nil {
		return errors.Join(linked, err)
	}
	return f.create(earlier, b)
}
