package console

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"testing"
)

// TestByteBudget: all files of the page together, compressed.
func TestByteBudget(t *testing.T) {
	const most = 300_000
	var all bytes.Buffer
	z := gzip.NewWriter(&all)
	files := 0
	err := fs.WalkDir(static, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		_, err = z.Write(text)
		return err
	})
	if err != nil || z.Close() != nil || files == 0 {
		t.Fatal(err, files)
	}
	if all.Len() >= most {
		t.Errorf("%d bytes in %d files, want less than %d", all.Len(), files, most)
	}
}
