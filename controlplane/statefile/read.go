package statefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// maxFile is far beyond what the bounds of scopes and history allow.
const maxFile = 256 << 20 // bytes

// attempts are how often a file that another process writes to is read.
const attempts = 5

// RefusedError refuses a file as it is.
type RefusedError struct {
	Path string
	Err  error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s: %v; nothing was changed in it: put back a copy, or move it away to begin with the configuration file's settings alone",
		e.Path, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// NewerError is why a file from a newer rdmad is refused.
type NewerError struct{ Format int }

func (e *NewerError) Error() string {
	return fmt.Sprintf("is from a newer rdmad (format %d, this one knows %d)", e.Format, format)
}

// Read gives what a file holds, even while a running rdmad writes to it.
// Errors: os.ErrNotExist, *RefusedError, and those of reading.
func Read(path string) (c *Contents, err error) {
	for range attempts {
		// A reader without a lock may see pages of two transactions; the
		// checks find that out, and the next reading is a fresh one.
		if c, err = read(path); !errors.Is(err, errDamaged) {
			break
		}
	}
	return c, err
}

func read(path string) (*Contents, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile || !info.Mode().IsRegular() {
		return nil, &RefusedError{Path: path, Err: damaged("not a file of at most %d bytes", maxFile)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c, err := parse(data)
	if err != nil {
		return nil, &RefusedError{Path: path, Err: err}
	}
	return c, nil
}

// parse reads a whole file.
func parse(data []byte) (*Contents, error) {
	b, err := readImage(data)
	if err != nil {
		return nil, err
	}
	return b.contents()
}

func (b buckets) contents() (*Contents, error) {
	var version int
	if err := b.get(bucketMeta, keyFormat, &version); err != nil {
		return nil, err
	}
	if version > format {
		return nil, &NewerError{Format: version}
	}
	c := &Contents{Layers: map[settings.Scope]settings.Layer{}}
	if err := b.base(c); err != nil {
		return nil, err
	}
	if err := b.scopes(c); err != nil {
		return nil, err
	}
	if err := b.history(c); err != nil {
		return nil, err
	}
	return c, nil
}

func (b buckets) get(bucket, key string, v any) error {
	value, ok := b[bucket][key]
	if !ok {
		return damaged("no %s in %s", key, bucket)
	}
	return unseal(bucket, []byte(key), value, v)
}

// state is the counts that the rest is held against.
func (b buckets) state() (s stateText, err error) {
	err = b.get(bucketMeta, keyState, &s)
	if err == nil && (len(b[bucketScopes]) != s.Scopes || len(b[bucketHistory]) != s.Entries) {
		err = damaged("%d scopes and %d revisions, not %d and %d",
			len(b[bucketScopes]), len(b[bucketHistory]), s.Scopes, s.Entries)
	}
	return s, err
}

func (b buckets) base(c *Contents) error {
	s, err := b.state()
	if err != nil {
		return err
	}
	c.Revision, c.counts = s.Revision, s
	var file, seen fileText
	if err := b.get(bucketMeta, keyFile, &file); err != nil {
		return err
	}
	if err := b.get(bucketMeta, keySeen, &seen); err != nil {
		return err
	}
	if c.File, err = file.file(); err != nil {
		return err
	}
	f, err := seen.file()
	c.Seen = f.Values
	return err
}

func (b buckets) scopes(c *Contents) error {
	for key := range b[bucketScopes] {
		scope, err := storedScope(key)
		if err != nil {
			return err
		}
		var t layerText
		if err := b.get(bucketScopes, key, &t); err != nil {
			return err
		}
		if c.Layers[scope], err = t.layer(); err != nil {
			return err
		}
	}
	return nil
}

// history wants the revisions without a gap up to the present one.
func (b buckets) history(c *Contents) error {
	n := uint32(len(b[bucketHistory]))
	if n > c.Revision || n == 0 && c.Revision > 0 || n > history.MaxEntries {
		return damaged("a history of %d up to revision %d", n, c.Revision)
	}
	for revision := c.Revision - n + 1; n > 0; revision++ {
		key := binary.BigEndian.AppendUint32(nil, revision)
		var t entryText
		if err := b.get(bucketHistory, string(key), &t); err != nil {
			return err
		}
		e, err := t.entry(revision)
		if err != nil {
			return err
		}
		if e.Status == history.Pending && revision != c.Revision {
			return damaged("revision %d waits to be confirmed after revision %d", revision, c.Revision)
		}
		c.Entries = append(c.Entries, e)
		n--
	}
	return nil
}
