package loglevel

import (
	"bytes"
	"log/slog"
	"testing"
)

// TestNames: each name gives its level, in upper case as well, and other names none.
func TestNames(t *testing.T) {
	for i, name := range Names() {
		if l, ok := Parse(name); !ok || l != all[i] || Name(l) != name {
			t.Errorf("%s: %v, %v", name, l, ok)
		}
	}
	if l, ok := Parse("WARN"); !ok || l != slog.LevelWarn {
		t.Errorf("WARN: %v, %v", l, ok)
	}
	for _, name := range []string{"", "loud", "info+2", "0"} {
		if l, ok := Parse(name); ok {
			t.Errorf("%q: %v", name, l)
		}
	}
}

// TestSet: a change applies to loggers that exist already.
func TestSet(t *testing.T) {
	level := New(Setting{slog.LevelInfo, Default})
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})).With("a", 1)
	log.Debug("hidden")
	if before := level.Set(Setting{slog.LevelDebug, "operator ada"}); before != (Setting{slog.LevelInfo, Default}) {
		t.Errorf("before: %+v", before)
	}
	log.Debug("shown")
	if got := level.Get(); got != (Setting{slog.LevelDebug, "operator ada"}) {
		t.Errorf("%+v", got)
	}
	if bytes.Contains(text.Bytes(), []byte("hidden")) || !bytes.Contains(text.Bytes(), []byte("shown")) {
		t.Errorf("logged %q", &text)
	}
}
