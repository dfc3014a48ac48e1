// Package logwriter writes the log without waiting for its reader.
package logwriter

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// patience is how long a line waits for the reader, unless lines before it wait already.
	patience = 100 * time.Millisecond
	// room is how much may wait, in bytes. Lines beyond it are lost.
	room = 1 << 20
)

// Writer passes lines on. Usually a line is written when Write returns, so that a crash loses none.
// But while nothing takes the lines, such as a journald that hangs or a terminal that is stopped,
// they wait, and nobody waits for them: otherwise everything that logs would stop, the end of the
// process included. All methods may be called from any goroutine.
type Writer struct {
	out  io.Writer
	lost func(lines int)

	mu      sync.Mutex
	waiting bytes.Buffer
	missing int           // lines that had no room
	written chan struct{} // closed when nothing waits any more; nil while nothing is being written
	stalled bool
}

// New returns a writer to out. It calls lost when lines had no room and out takes lines again.
func New(out io.Writer, lost func(lines int)) *Writer { return &Writer{out: out, lost: lost} }

// Write implements io.Writer for whole lines. It never fails: there is nowhere to report it.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	if w.waiting.Len()+len(line) > room {
		w.missing++
		w.mu.Unlock()
		return len(line), nil
	}
	w.waiting.Write(line)
	if w.written == nil {
		w.written = make(chan struct{})
		go w.pass()
	}
	written, stalled := w.written, w.stalled
	w.mu.Unlock()
	if stalled {
		return len(line), nil
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-written:
	case <-timeout.C:
		w.mu.Lock()
		w.stalled = w.written == written
		w.mu.Unlock()
	}
	return len(line), nil
}

// pass writes until nothing waits.
func (w *Writer) pass() {
	var now bytes.Buffer
	for w.take(&now) {
		_, _ = w.out.Write(now.Bytes())
	}
}

// take moves what waits to now. It returns false if there was nothing.
func (w *Writer) take(now *bytes.Buffer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now.Reset()
	if w.waiting.Len() > 0 {
		*now, w.waiting = w.waiting, *now
		return true
	}
	if n := w.missing; n > 0 {
		w.missing = 0
		go w.lost(n)
	}
	close(w.written)
	w.written, w.stalled = nil, false
	return false
}
