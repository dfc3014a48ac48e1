package nfs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfs"
)

// TestKeepOut: a state directory inside an export is refused, whether it exists or not, and
// whatever the names are. Nothing is made.
func TestKeepOut(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"export/there", "beside"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(root, "export"), filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		state, export string
		refused       bool
	}{
		{"export", "export", true},
		{"export/there", "export", true},
		{"export/new/services/a", "export", true},
		{"link/new", "export", true},
		{"export/new", "link", true},
		{"missing/new", "missing", true},
		{"beside", "export", false},
		{"export-too", "export", false},
		{"new/services/a", "export", false},
		{"beside", "missing", false},
	} {
		err := nfs.KeepOut(filepath.Join(root, c.state), filepath.Join(root, c.export))
		if (err != nil) != c.refused {
			t.Errorf("state directory %s, export %s: %v", c.state, c.export, err)
		}
	}
	all, err := os.ReadDir(filepath.Join(root, "export"))
	if err != nil || len(all) != 1 {
		t.Errorf("the export has %v, %v", all, err)
	}
}
