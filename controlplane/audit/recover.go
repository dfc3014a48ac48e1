package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rdmad/rdmad/dataplane/durable"
)

// The actor and actions of entries about the log itself.
const (
	selfActor    = "rdmad"
	selfRole     = "admin"
	actionRepair = "repair"
	actionDamage = "damage"
)

func self(action, outcome, reason string) *Entry {
	return &Entry{Actor: selfActor, Role: selfRole, Action: action, Outcome: outcome, Reason: reason}
}

// recover finds the position to write at, opens the file there, and makes the
// entries that are missing in the log owed: the next write adds them. It looks for
// requests that began in the last two files: each file begins with the requests that
// were not done when it was made (see makeRoom).
func (l *Log) recover() error {
	older, err := olderFiles(l.cfg.Dir)
	if err != nil {
		return err
	}
	var unread *fs.PathError // of the disk
	if len(older) > 0 {
		last := older[len(older)-1]
		err := l.follow(last)
		if err == nil && l.at == (chain{}) {
			err = errors.New("its entries are gone")
		}
		if err != nil && !errors.As(err, &unread) {
			l.cfg.Logger.Error("audit log is damaged", "file", last, "after", l.at.sequence, "error", err)
			err = l.pass(last)
		}
		if errors.As(err, &unread) {
			l.cfg.Logger.Error("audit log can't be read", "file", last, "after", l.at.sequence, "error", err)
		}
	}
	l.first = 0
	if err := l.resume(); err != nil {
		return err
	}
	if unread != nil && l.size == 0 { // the position is in what could not be read
		return unread
	}
	l.owed = l.unfinished()
	for _, e := range l.owed {
		e.Outcome, e.Reason = Unknown, "rdmad ended before it was done"
	}
	return nil
}

// unfinished returns copies of the entries of requests that are not done, as entries about those.
func (l *Log) unfinished() (copies []*Entry) {
	for of, e := range l.begun {
		c := *e
		c.Of = of
		copies = append(copies, &c)
	}
	slices.SortFunc(copies, func(a, b *Entry) int { return cmp.Compare(a.Of, b.Of) })
	return copies
}

// follow reads a finished file.
func (l *Log) follow(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, l.at, err = scan(f, chain{}, l.see)
	return err
}

// pass takes the position behind a finished file that is damaged: behind all that it may have had, so that no number comes
// again. Lines that are as they were written count, so that requests that are done there stay done.
func (l *Log) pass(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	last, lost := firstOf(name)-1, uint64(0) // lost are the entries after last
	for line := range bytes.Lines(text) {
		if e, at, err := parseLine(line); err == nil && e.Sequence > last {
			l.at, last, lost = at, e.Sequence, 0
			_ = l.see(e)
		} else {
			lost += max(1, uint64(len(line)/minLine)) // line ends may be damaged, too
		}
	}
	l.at.sequence = max(last+lost, firstOf(name)) // which had an entry
	return nil
}

func (l *Log) see(e *Entry) error {
	if l.first == 0 {
		l.first = e.Sequence
	}
	if e.Outcome == Started && e.Of != 0 {
		l.begun[e.Of] = e
		return nil
	}
	l.remember(e)
	return nil
}

// resume opens the file that is written, and finds what doesn't follow.
func (l *Log) resume() (err error) {
	if l.file, err = l.open(l.path()); err != nil {
		return err
	}
	f, err := os.Open(l.path())
	if err != nil {
		return err
	}
	defer f.Close()
	good, at, rest := scan(f, chain{}, l.see)
	if errors.As(rest, new(*fs.PathError)) { // of the disk: the rest may be as it was written
		return rest
	}
	if good > 0 {
		l.at = at
	}
	l.size, l.damage = good, rest
	return durable.SyncDir(l.cfg.Dir)
}

// cutOff removes what doesn't follow from the entries before it, and makes an entry about that owed. It keeps what it
// removes in a file of its own, except the beginning of a single line, which a crash leaves behind.
func (l *Log) cutOff() error {
	if l.damage == nil {
		return nil
	}
	f, err := os.Open(l.path())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(l.size, io.SeekStart); err != nil {
		return err
	}
	var note *Entry
	if errors.Is(l.damage, errTorn) {
		n, err := io.Copy(io.Discard, f)
		if err != nil {
			return err
		}
		note = self(actionRepair, OK, fmt.Sprintf("cut off %d bytes of an entry that was not finished", n))
	} else {
		name := fmt.Sprintf("%s%0*d", damagePrefix, olderDigits, l.at.sequence+1)
		n, sum, err := copyOut(filepath.Join(l.cfg.Dir, name), f)
		if err == nil {
			err = durable.SyncDir(l.cfg.Dir)
		}
		if err != nil {
			return err
		}
		note = self(actionDamage, "DATA_LOSS", fmt.Sprintf("%v; %d bytes from there on, SHA-256 %s, are in %s now", l.damage, n, sum, name))
	}
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	l.cfg.Logger.Error("audit log repaired", "file", l.path(), "after", l.at.sequence, "what", note.Reason)
	l.damage, l.owed = nil, append([]*Entry{note}, l.owed...) // which syncs the file
	return nil
}

// copyOut copies what r has to a file, and syncs it. If that fails, it removes the file, which would take room.
func copyOut(name string, r io.Reader) (n int64, sum string, err error) {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, "", err
	}
	hash := sha256.New()
	n, err = io.Copy(io.MultiWriter(out, hash), r)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		os.Remove(name)
	}
	return n, hex.EncodeToString(hash.Sum(nil)), err
}

// makeRoom finishes the file when it is full, and begins the next one with
// copies of the entries of unfinished requests. So the last two files have all
// of them. If the disk is full, for example, it does the rest before the next write.
func (l *Log) makeRoom() error {
	if l.size >= l.cfg.MaxSize && l.first != 0 {
		if err := l.finish(); err != nil {
			return err
		}
	}
	if !l.fresh {
		return nil
	}
	if err := durable.SyncDir(l.cfg.Dir); err != nil {
		return err
	}
	l.dropOldest()
	if err := l.carry(); err != nil {
		return err
	}
	l.fresh = false
	return nil
}

// finish gives the file its final name, and opens the next one.
func (l *Log) finish() error {
	older := filepath.Join(l.cfg.Dir, olderName(l.first))
	if err := os.Rename(l.path(), older); err != nil {
		return err
	}
	next, err := l.open(l.path())
	if err != nil {
		return errors.Join(err, os.Rename(older, l.path()))
	}
	if err := l.file.Close(); err != nil {
		l.cfg.Logger.Error("finished file of the audit log", "error", err)
	}
	l.file, l.size, l.first, l.fresh = next, 0, 0, true
	return nil
}

func (l *Log) carry() error {
	copies := l.unfinished()
	if len(copies) == 0 {
		return nil
	}
	text, after, err := l.encode(copies)
	if err != nil {
		return err
	}
	if err := l.put(text); err != nil {
		return err
	}
	l.first, l.at = copies[0].Sequence, after
	return nil
}

// dropOldest keeps as many finished files as there may be.
func (l *Log) dropOldest() {
	files, err := olderFiles(l.cfg.Dir)
	for len(files) > l.cfg.Keep && err == nil {
		err = os.Remove(files[0])
		files = files[1:]
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.cfg.Logger.Error("oldest file of the audit log stays", "error", err)
	}
}
