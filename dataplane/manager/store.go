package manager

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rdmad/rdmad/dataplane/durable"
)

// Saved is what operators added and rdmad brings back when it starts.
type Saved struct {
	Services  []ServiceSpec  `json:"services"`
	Listeners []ListenerSpec `json:"listeners"`
}

// Store keeps what was added over restarts.
type Store interface {
	// Load gives what was saved last; nothing when nothing was.
	Load() (Saved, error)
	// Save keeps all of s, also if the machine fails right afterwards, or
	// keeps what there was.
	Save(s Saved) error
}

// fileFormat is the format's number; a later one is another format.
const fileFormat = 1

// maxFile bounds the file, in bytes: somebody else's is not read whole.
const maxFile = 16 << 20

type fileContent struct {
	Format int `json:"format"`
	Saved
}

// File is a Store in one JSON file, in a directory that is there.
type File struct {
	path  string
	write func(f *os.File, b []byte) error // tests have the disk fail
}

var _ Store = (*File)(nil)

// NewFile makes a store in a file, which may be missing.
func NewFile(path string) *File {
	return &File{path: path, write: func(f *os.File, b []byte) error {
		_, err := f.Write(b)
		return err
	}}
}

// Load implements Store. A file that it can't make sense of is an error, and
// stays as it is.
func (f *File) Load() (Saved, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return Saved{}, nil
	}
	if err != nil {
		return Saved{}, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return Saved{}, err
	}
	c, err := decodeFile(b)
	if err != nil {
		return Saved{}, fmt.Errorf("%s: %w; restore it, or move it away to start without what was added", f.path, err)
	}
	return c, nil
}

func decodeFile(b []byte) (Saved, error) {
	if len(b) > maxFile {
		return Saved{}, fmt.Errorf("is longer than %d bytes", maxFile)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Saved{}, fmt.Errorf("is damaged (%w)", err)
	}
	if head.Format != fileFormat {
		return Saved{}, fmt.Errorf("has format %d, and this rdmad knows format %d", head.Format, fileFormat)
	}
	var c fileContent
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return Saved{}, fmt.Errorf("is damaged (%w)", err)
	}
	return c.Saved, nil
}

// Save implements Store: a new file takes the old one's place when it is on
// the disk.
func (f *File) Save(s Saved) (err error) {
	b, err := json.MarshalIndent(fileContent{fileFormat, s}, "", "  ")
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
