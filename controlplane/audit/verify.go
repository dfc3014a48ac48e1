package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Report is the result of Verify.
type Report struct {
	First, Last uint64 // sequences; 0 when there are no entries
	Entries     int    // that are as they were written
	Files       int
	Hash        string   // of the last entry, to be compared with one noted elsewhere
	SetAside    []string // files with what was found damaged when rdmad started
}

// DamageError is the place of damage in the log.
type DamageError struct {
	File   string
	Offset int64  // bytes before it in the file
	After  uint64 // sequence of the last entry that is as it was written
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: at byte %d, after entry %d: %v", e.File, e.Offset, e.After, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Verify checks that each entry of a directory's log follows the one before it. The error for
// one that does not is a *DamageError. A running rdmad may write an entry, finish a file or
// drop one at this moment, which looks like damage: so only damage that Verify sees twice in
// the same files counts. Verify cannot detect that the oldest files or the newest entries are
// gone: compare Last and Hash with the values that rdmad logged when it started or that were
// verified before.
func Verify(dir string) (r Report, err error) {
	var before *DamageError
	for range patience {
		files, _ := olderFiles(dir)
		r, err = verifyOnce(dir)
		var damage *DamageError
		if !errors.As(err, &damage) {
			return r, err
		}
		if now, _ := olderFiles(dir); !slices.Equal(files, now) {
			before = nil
			continue
		}
		if before != nil && before.File == damage.File && before.Offset == damage.Offset && before.After == damage.After {
			return r, err
		}
		before = damage
	}
	return r, err
}

// patience is how often the log is read again when its files changed
// meanwhile. A file is finished every 16 MiB.
const patience = 1000

func verifyOnce(dir string) (r Report, err error) {
	if _, err := os.Stat(dir); err != nil {
		return r, err
	}
	files, err := olderFiles(dir)
	if err != nil {
		return r, err
	}
	if r.SetAside, err = filesIn(dir, damagePrefix); err != nil {
		return r, err
	}
	var at chain
	for _, file := range append(files, filepath.Join(dir, currentName)) {
		if at, err = r.add(file, at); err != nil {
			return r, err
		}
	}
	return r, nil
}

// add checks one file, whose entries follow at. One that isn't there has none.
func (r *Report) add(file string, at chain) (chain, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	} else if err != nil {
		return at, err
	}
	defer f.Close()
	r.Files++
	good, at, err := scan(f, at, func(e *Entry) error {
		if r.First == 0 {
			r.First = e.Sequence
		}
		r.Entries++
		return nil
	})
	r.Last, r.Hash = at.sequence, at.hash
	if errors.As(err, new(*fs.PathError)) { // of the disk
		return at, err
	}
	if err != nil {
		return at, &DamageError{File: file, Offset: good, After: at.sequence, Err: err}
	}
	return at, nil
}
