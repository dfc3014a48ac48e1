package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Report is what Verify found.
type Report struct {
	First, Last uint64 // sequences; 0 when there are no entries
	Files       int
	Hash        string // of the last entry, to be compared with one noted elsewhere
}

// DamageError is a place where the log isn't as it was written.
type DamageError struct {
	File  string
	After uint64 // sequence of the last entry that is as it was written
	Err   error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s: after entry %d: %v", e.File, e.After, e.Err)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Verify reads a directory's whole log and checks that each entry follows the
// one before it. The error is a *DamageError when one doesn't. What it can't
// see is that the oldest files or the newest entries are gone: compare Last
// and Hash with what rdmad logged when it started or was verified before.
func Verify(dir string) (Report, error) {
	var (
		r  Report
		at chain
	)
	files, err := olderFiles(dir)
	if err != nil {
		return r, err
	}
	for _, file := range append(files, filepath.Join(dir, currentName)) {
		f, err := os.Open(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return r, err
		}
		r.Files++
		_, at, err = scan(f, at, func(e *Entry) error {
			if r.First == 0 {
				r.First = e.Sequence
			}
			return nil
		})
		f.Close()
		r.Last, r.Hash = at.sequence, at.hash
		if err != nil {
			return r, &DamageError{file, at.sequence, err}
		}
	}
	return r, nil
}
