// Package logtest keeps the logs of tests.
package logtest

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Log keeps what several goroutines write. An empty Log is ready for use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
	grew chan struct{} // closed with the next Write, if somebody waits for it
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grew != nil {
		close(l.grew)
		l.grew = nil
	}
	return l.text.Write(p)
}

// String returns the whole log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Lines returns the lines that contain all of some texts.
func (l *Log) Lines(with ...string) []string {
	return linesOf(l.String(), with)
}

func linesOf(text string, with []string) []string {
	return slices.DeleteFunc(split(text), func(line string) bool {
		return slices.ContainsFunc(with, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// Take returns all lines and removes them.
func (l *Log) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return split(l.text.String())
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// patience is how long Await waits. It only detects hangs.
const patience = 2 * time.Minute

// Await returns when the log has a line that contains all of some texts. If it does not for
// minutes, the test ends.
func (l *Log) Await(t testing.TB, with ...string) {
	t.Helper()
	hung := time.NewTimer(patience)
	defer hung.Stop()
	for {
		l.mu.Lock()
		found := len(linesOf(l.text.String(), with)) > 0
		if l.grew == nil {
			l.grew = make(chan struct{})
		}
		grew := l.grew
		l.mu.Unlock()
		if found {
			return
		}
		select {
		case <-grew:
		case <-hung.C:
			t.Fatalf("the log has no line with %q:\n%s", with, l)
		}
	}
}
