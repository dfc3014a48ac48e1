package port

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
)

// TestErrorLog: what a client sent is quoted, in one line.
func TestErrorLog(t *testing.T) {
	const text = "http: bad request from 192.0.2.7:1: x\ntime=0 level=ERROR msg=forged\x1b[2J"
	var plain, structured logtest.Log
	ErrorLog(slog.New(slog.NewTextHandler(&plain, nil)), slog.LevelWarn, "console").Println(text)
	ErrorLog(slog.New(slog.NewJSONHandler(&structured, nil)), slog.LevelWarn, "console").Println(text)
	got := plain.Lines()
	if len(got) != 1 || !strings.HasSuffix(got[0], `level=WARN msg="HTTP server" what=console error="http: bad request from 192.0.2.7:1: x\ntime=0 level=ERROR msg=forged\x1b[2J"`) {
		t.Errorf("text: %q", got)
	}
	var line struct{ Error string }
	if err := json.Unmarshal([]byte(structured.String()), &line); err != nil || line.Error != text || len(structured.Lines()) != 1 {
		t.Errorf("JSON: %q, %v", structured.String(), err)
	}
}
