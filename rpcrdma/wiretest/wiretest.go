// Package wiretest reads headers that tests have as text files.
package wiretest

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Transcript is one file of testdata: the header; after a line ++ the rest of the message;
// after a line -- the meaning of the header.
type Transcript struct {
	Header []byte
	Rest   []byte // the RPC message
	Want   string
}

// Transcripts reads the files of testdata, by their names.
func Transcripts(t testing.TB) map[string]Transcript {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	all := make(map[string]Transcript)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, want, _ := strings.Cut(string(text), "--\n")
		header, rest, _ := strings.Cut(data, "++\n")
		all[strings.TrimSuffix(filepath.Base(file), ".txt")] = Transcript{
			Header: Unhex(t, header),
			Rest:   Unhex(t, rest),
			Want:   strings.TrimSpace(want),
		}
	}
	return all
}

// Unhex decodes lines of hex digits, separated by blanks. # begins a comment.
func Unhex(t testing.TB, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}
