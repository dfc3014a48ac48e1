package port

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// ErrorLog returns a log for the error texts of a server of package http, or of a handler of it. what
// names the server. Each text is one attribute, so that the handler of the log quotes what a client
// sent.
func ErrorLog(to *slog.Logger, level slog.Level, what string) *log.Logger {
	return log.New(lines{to, level, what}, "", 0)
}

type lines struct {
	log   *slog.Logger
	level slog.Level
	what  string
}

// Write implements io.Writer.
func (l lines) Write(text []byte) (int, error) {
	l.log.Log(context.Background(), l.level, "HTTP server", "what", l.what, "error", strings.TrimSpace(string(text)))
	return len(text), nil
}
