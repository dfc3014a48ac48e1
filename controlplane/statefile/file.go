package statefile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/durable"
)

// lockTime is how long another process may hold the file.
const lockTime = time.Second

// File is an open file. Its methods are called one after another.
type File struct {
	db     *bbolt.DB
	path   string
	counts stateText
	doubt  error                 // a write that may or may not have been one
	commit func(*bbolt.Tx) error // of a transaction; tests have it fail
}

// Open opens a file and gives what it holds. Errors: os.ErrNotExist,
// *RefusedError, and those of the system.
func Open(path string) (*File, *Contents, error) {
	c, err := Read(path)
	if err != nil {
		return nil, nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTime, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, plain(err))
	}
	return &File{db: db, path: path, counts: c.counts, commit: (*bbolt.Tx).Commit}, c, nil
}

// Create makes a file at revision 0 and leaves it closed. There is no moment
// at which a part of it has its name.
func Create(path string, f settings.FileLayer) (err error) {
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	db, err := bbolt.Open(temp, 0o600, &bbolt.Options{Timeout: lockTime, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{bucketMeta, bucketScopes, bucketHistory} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		w := &writer{tx: tx}
		w.put(keyFormat, format)
		w.put(keyState, stateText{})
		w.put(keyFile, textOfFile(&f))
		w.put(keySeen, textOfFile(&f))
		return w.err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, plain(err))
	}
	return durable.Rename(temp, path)
}

// plain leaves the path to who names it.
func plain(err error) error {
	var pathError *os.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// Close closes the file.
func (f *File) Close() error { return f.db.Close() }
