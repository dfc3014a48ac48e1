package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Config configures a log.
type Config struct {
	Dir    string // exists, and is no other process's
	Logger *slog.Logger
	// MaxSize is the size at which a file is finished, in bytes; 0 for
	// DefaultMaxSize. Keep is how many finished files are kept; 0 for
	// DefaultKeep.
	MaxSize int64
	Keep    int
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Bounds of a log: some 20 MiB hold 20,000 changes.
const (
	DefaultMaxSize = 16 << 20
	DefaultKeep    = 15
)

// file is what a log needs of an *os.File.
type file interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// Log is an open audit log. Its methods may be called from any goroutine. Entries of several
// goroutines are written and synced together.
type Log struct {
	cfg  Config
	open func(name string) (file, error)

	mu      sync.Mutex // of next, last and refused
	last    error      // of the last write
	next    *batch     // that whoever writes next takes
	refused map[refuser]*refusals
	writing sync.Mutex // of what follows; taken before mu

	file   file
	size   int64
	damage error  // why the bytes behind size are no entries, until they are cut off; nil if there are none
	first  uint64 // sequence of the file's first entry, 0 while it is empty
	fresh  bool   // the file may not be on the disk yet, and lacks the copies of unfinished requests
	at     chain
	begun  map[uint64]*Entry // recorded, but not done
	owed   []*Entry          // that could not be written when they should have been
	failed error             // for good: the file is in no known state
}

// batch is entries that are written together.
type batch struct {
	entries []*Entry
	done    chan struct{}
	err     error // set before done is closed
}

var errClosed = errors.New("audit log is closed")

// Open opens the log of a directory, or makes one. Open cuts off an entry that
// a crash left unfinished, and moves entries that do not follow from those
// before them to a file of their own. The log records both. Requests that began
// and were not done get the outcome Unknown. What can't be moved or written now,
// as on a full disk, is with the next entry. Errors are one line for the operator.
func Open(cfg Config) (*Log, error) {
	return openWith(cfg, func(name string) (file, error) {
		return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	})
}

func openWith(cfg Config, open func(string) (file, error)) (*Log, error) {
	cfg.MaxSize, cfg.Keep = cmp.Or(cfg.MaxSize, DefaultMaxSize), cmp.Or(cfg.Keep, DefaultKeep)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	l := &Log{cfg: cfg, open: open, begun: make(map[uint64]*Entry), refused: make(map[refuser]*refusals)}
	err := l.recover()
	if err == nil {
		if err = l.append(); err != nil && l.failed == nil {
			cfg.Logger.Error("audit log can't be written", "error", err)
			err = nil // as on a full disk; until there is room, no request begins
		}
	}
	if err != nil {
		if l.file != nil {
			l.file.Close()
		}
		return nil, fmt.Errorf("audit log %s: %w", l.path(), err)
	}
	return l, nil
}

func (l *Log) path() string { return filepath.Join(l.cfg.Dir, currentName) }

// Newest is the last entry's sequence and hash; 0 and "" in an empty log.
// Noted elsewhere, they show later whether the end of the log was cut off.
func (l *Log) Newest() (sequence uint64, hash string) {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.at.sequence, l.at.hash
}

// Problem is why the last entries could not be written; nil if they were.
func (l *Log) Problem() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Retry writes an entry about the gap if the last entries could not be written. If it can't be written
// either, Problem has the reason.
func (l *Log) Retry() {
	if why := l.Problem(); why != nil {
		_ = l.Append(self(actionRepair, OK, Bounded("entries can be written again, after "+why.Error())))
	}
}

// Append writes entries and returns when they are on the disk. Their time and
// place in the log are set here.
func (l *Log) Append(entries ...*Entry) error {
	if len(entries) == 0 {
		return nil
	}
	return l.append(entries...)
}

// append writes entries, what is owed, and the counts that are due.
func (l *Log) append(entries ...*Entry) error {
	l.mu.Lock()
	b := l.next
	leads := b == nil
	if leads {
		b = &batch{done: make(chan struct{})}
		l.next = b
	}
	b.entries = append(b.entries, entries...)
	l.mu.Unlock()
	if !leads {
		<-b.done
		return b.err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	l.next = nil // no goroutine joins the batch from now on
	counts := l.takeCounts(false)
	l.mu.Unlock()
	nothing := l.damage == nil && len(l.owed)+len(b.entries)+len(counts) == 0 // another batch had what was owed
	b.err = l.write(append(b.entries, counts...))
	for _, e := range counts {
		l.report(b.err, e)
	}
	if !nothing {
		l.mu.Lock()
		l.last = b.err
		l.mu.Unlock()
	}
	close(b.done)
	return b.err
}

// write brings what is owed and entries to the disk, all or none of them.
func (l *Log) write(entries []*Entry) error {
	if l.failed != nil {
		return l.failed
	}
	if err := l.cutOff(); err != nil {
		return err
	}
	all := append(l.owed[:len(l.owed):len(l.owed)], entries...)
	if len(all) == 0 {
		return nil
	}
	if err := l.makeRoom(); err != nil {
		return err
	}
	text, after, err := l.encode(all)
	if err != nil {
		return err
	}
	if err := l.put(text); err != nil {
		return err
	}
	if l.first == 0 {
		l.first = all[0].Sequence
	}
	l.at, l.owed = after, nil
	for _, e := range all {
		l.remember(e)
	}
	return nil
}

func (l *Log) encode(entries []*Entry) (text []byte, after chain, err error) {
	after = l.at
	for _, e := range entries {
		if e.Time.IsZero() {
			e.Time = l.cfg.Now().UTC()
		}
		if text, after, err = after.appendLine(text, e); err != nil {
			return nil, l.at, err
		}
	}
	return text, after, nil
}

// put appends text to the file. If that fails, put removes the written part. If
// that fails too, the log must be opened again before it can be used.
func (l *Log) put(text []byte) error {
	_, err := l.file.Write(text)
	if err == nil {
		err = l.file.Sync()
	}
	if err == nil {
		l.size += int64(len(text))
		return nil
	}
	undo := l.file.Truncate(l.size)
	if undo == nil {
		undo = l.file.Sync()
	}
	if undo != nil {
		l.failed = fmt.Errorf("%w; and it can't be undone: %w", err, undo)
		return l.failed
	}
	return err
}

// remember keeps track of what has begun and is not done.
func (l *Log) remember(e *Entry) {
	if e.Outcome == Started && e.Of == 0 {
		l.begun[e.Sequence] = e
		return
	}
	if e.Outcome != Started {
		delete(l.begun, e.Of)
	}
}

// Close writes what is owed and counted, if there is room now, and closes the file.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if errors.Is(l.failed, errClosed) {
		return nil
	}
	l.mu.Lock()
	counts := l.takeCounts(true)
	l.mu.Unlock()
	err := l.write(counts) // if it fails with what is owed, it did before, which was logged
	for _, e := range counts {
		l.report(err, e)
	}
	l.failed = errClosed
	return l.file.Close()
}
