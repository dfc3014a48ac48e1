package statefile

import (
	"bytes"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// Commit has r on the disk before it returns, or nothing of it. When a write
// failed in such a way that it may have been made, it is taken back; when even
// that fails, every later Commit is refused until the file is opened anew.
func (f *File) Commit(r *Record) error {
	if f.doubt != nil {
		return fmt.Errorf("%s: in doubt since an earlier failure (%w); restart rdmad", f.path, f.doubt)
	}
	counts, undo, err := f.write(r)
	if err == nil {
		f.counts = counts
		return nil
	}
	err = plain(err)
	if takeBack := f.takeBack(undo); takeBack != nil {
		f.doubt = err
		return fmt.Errorf("%s: %w; nor could that be taken back: %w", f.path, err, takeBack)
	}
	return fmt.Errorf("%s: %w", f.path, err)
}

// write makes r's transaction. undo is what was there before.
func (f *File) write(r *Record) (counts stateText, undo []overwritten, err error) {
	tx, err := f.db.Begin(true)
	if err != nil {
		return counts, nil, err
	}
	w := &writer{tx: tx, counts: f.counts}
	w.record(r)
	w.counts.Writes++
	w.put(keyState, w.counts)
	if w.err != nil {
		return counts, nil, errors.Join(w.err, tx.Rollback())
	}
	if err := f.commit(tx); err != nil {
		if e := tx.Rollback(); e != nil && !errors.Is(e, bolterrors.ErrTxClosed) {
			err = errors.Join(err, e)
		}
		return counts, w.undo, err
	}
	return w.counts, nil, nil
}

// takeBack writes undo, if what it is the undoing of can be seen.
func (f *File) takeBack(undo []overwritten) error {
	if undo == nil {
		return nil
	}
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	w := &writer{tx: tx}
	last := undo[len(undo)-1] // the state
	if bytes.Equal(w.bucket(last.bucket).Get(last.key), last.value) {
		return tx.Rollback()
	}
	for i := len(undo) - 1; i >= 0; i-- {
		w.set(undo[i].bucket, undo[i].key, undo[i].value)
	}
	if w.err != nil {
		return errors.Join(w.err, tx.Rollback())
	}
	return f.commit(tx)
}

// overwritten is a value that was replaced; nil when there was none.
type overwritten struct {
	bucket     string
	key, value []byte
}

// writer writes values and remembers what they replaced. After the first
// error it does nothing.
type writer struct {
	tx     *bbolt.Tx
	counts stateText
	undo   []overwritten
	err    error
}

func (w *writer) bucket(name string) *bbolt.Bucket { return w.tx.Bucket([]byte(name)) }

func (w *writer) record(r *Record) {
	for _, e := range r.Drop {
		w.counts.Entries += w.set(bucketHistory, historyKey(e), nil)
	}
	if e := r.Amend; e != nil {
		w.counts.Entries += w.seal(bucketHistory, historyKey(e.Revision), textOfEntry(e))
	}
	if r.Seen != nil {
		w.put(keySeen, textOfFile(&settings.FileLayer{Values: *r.Seen}))
	}
	if e := r.Entry; e != nil {
		w.step(&e.Step)
		w.counts.Entries += w.seal(bucketHistory, historyKey(e.Revision), textOfEntry(e))
		w.counts.Revision = e.Revision
	}
}

func (w *writer) step(s *settings.Step) {
	for _, d := range s.Deltas {
		key := []byte(d.Scope.String())
		switch {
		case d.Scope.Kind == settings.Connection:
		case d.After.Values.Keys() == 0:
			w.counts.Scopes += w.set(bucketScopes, key, nil)
		default:
			w.counts.Scopes += w.seal(bucketScopes, key, textOfLayer(&d.After))
		}
	}
	if s.File != nil {
		w.put(keyFile, textOfFile(&s.File.After))
	}
}

// put writes a value of the bucket meta.
func (w *writer) put(key string, v any) { w.seal(bucketMeta, []byte(key), v) }

// seal writes a value and says how many there are more.
func (w *writer) seal(bucket string, key []byte, v any) int {
	value, err := seal(bucket, key, v)
	if err != nil && w.err == nil {
		w.err = err
	}
	return w.set(bucket, key, value)
}

// set writes a value as it is, or deletes it when it is nil, and says how
// many there are more.
func (w *writer) set(bucket string, key, value []byte) int {
	if w.err != nil {
		return 0
	}
	b := w.bucket(bucket)
	old := bytes.Clone(b.Get(key))
	w.undo = append(w.undo, overwritten{bucket: bucket, key: key, value: old})
	switch {
	case value != nil:
		w.err = b.Put(key, value)
	case old != nil:
		w.err = b.Delete(key)
	}
	return present(value) - present(old)
}

func present(value []byte) int {
	if value != nil {
		return 1
	}
	return 0
}
