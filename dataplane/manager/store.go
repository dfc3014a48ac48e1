package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rdmad/rdmad/dataplane/durable"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Saved is what operators added and rdmad brings back when it starts.
type Saved = spec.All

// Store keeps what was added over restarts.
type Store interface {
	// Load gives what was saved last; nothing when nothing was.
	Load() (Saved, error)
	// Save keeps all of s, also if the machine fails right afterwards, or
	// keeps what there was.
	Save(s Saved) error
}

// fileFormat is the format's number; a later one is another format. Format 2 has
// the keys and values of the configuration file.
const fileFormat = 2

// maxFile bounds the file, in bytes: somebody else's is not read whole.
const maxFile = 16 << 20

// File is a Store in one JSON file, in a directory that is there.
type File struct{ jsonFile }

var _ Store = (*File)(nil)

// NewFile makes a store in a file, which may be missing.
func NewFile(path string) *File { return &File{newJSONFile(path)} }

// Load implements Store. A file that it can't make sense of is an error, and
// stays as it is.
func (f *File) Load() (s Saved, err error) { return s, f.load(&s) }

// Save implements Store.
func (f *File) Save(s Saved) error { return f.save(s) }

// jsonFile is a file with specifications in JSON, beside the number of the format.
type jsonFile struct {
	path  string
	write func(f *os.File, b []byte) error // tests have the disk fail
}

func newJSONFile(path string) jsonFile {
	return jsonFile{path: path, write: func(f *os.File, b []byte) error {
		_, err := f.Write(b)
		return err
	}}
}

// load reads the file into s, which stays as it is when there is none.
func (f *jsonFile) load(s *Saved) error {
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return err
	}
	if err := decodeFile(b, s); err != nil {
		return fmt.Errorf("%s: %w; restore it, or move it away to start without what was added", f.path, err)
	}
	return nil
}

func decodeFile(b []byte, s *Saved) error {
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
	if head.Format == oldFormat {
		convertOld(values)
	}
	if err := spec.Decode(values, s); err != nil {
		return fmt.Errorf("is damaged (%s)", oneLine(err))
	}
	return nil
}

// oneLine is the first mistake of those that a decoder lists.
func oneLine(err error) string {
	_, list, found := strings.Cut(err.Error(), "\n\n")
	if !found {
		list = err.Error()
	}
	first, _, _ := strings.Cut(strings.TrimSpace(list), "\n")
	return first
}

// save writes s: a new file takes the old one's place when it is on the disk.
func (f *jsonFile) save(s Saved) (err error) {
	values := spec.Encode(s)
	values["format"] = fileFormat
	b, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	tmp, err := os.CreateTemp(dir, filepath.Base(f.path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	err = f.write(tmp, append(b, '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return durable.Rename(tmp.Name(), f.path)
}
