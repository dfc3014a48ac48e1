package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReplaceFile: a link stays, and so do the mode and the owner of the file that it names.
func TestReplaceFile(t *testing.T) {
	owner := os.Geteuid()
	if owner == 0 {
		owner = 1234 // root replaces files of others, too
	}
	for _, old := range []bool{true, false} {
		dir := t.TempDir()
		file, link := filepath.Join(dir, "file"), filepath.Join(dir, "sub", "link")
		mode := os.FileMode(0o600)
		if err := os.Mkdir(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../file", link); err != nil {
			t.Fatal(err)
		}
		if old {
			if err := os.WriteFile(file, []byte("old"), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(file, owner, -1); err != nil {
				t.Fatal(err)
			}
		}
		if err := replaceFile(link, []byte("new")); err != nil {
			t.Fatal(err)
		}
		to, err := os.Readlink(link)
		if err != nil || to != "../file" {
			t.Errorf("the link is to %q, %v", to, err)
		}
		text, err := os.ReadFile(file)
		if err != nil || string(text) != "new" {
			t.Errorf("%q, %v", text, err)
		}
		if info, err := os.Stat(file); err != nil || old && (info.Mode() != mode || int(info.Sys().(*syscall.Stat_t).Uid) != owner) {
			t.Errorf("%v, %v", info, err)
		}
		for _, in := range []string{dir, filepath.Dir(link)} {
			if left, err := filepath.Glob(filepath.Join(in, ".*")); err != nil || len(left) > 0 {
				t.Errorf("%q is left, %v", left, err)
			}
		}
	}
}

// TestReplaceFileNowhere: the error names the file that the user named, not that which replaces it, nor what a link names.
func TestReplaceFileNowhere(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "none", "tuned.yaml"), filepath.Join(dir, "link")
	if err := os.Symlink("/proc/self/limits", link); err != nil { // nobody may make files beside it
		t.Fatal(err)
	}
	for _, name := range []string{name, link} {
		if err := replaceFile(name, nil); err == nil || !strings.HasPrefix(err.Error(), "open "+name+": ") {
			t.Error(err)
		}
	}
}

// TestRenameNamesOneFile: the error of a file that can't be replaced, such as a mount of its own in a container,
// names that file, too.
func TestRenameNamesOneFile(t *testing.T) {
	err := named(errors.Join(&os.LinkError{Op: "rename", Old: "/srv/.tuned.yaml.1", New: "/srv/tuned.yaml", Err: syscall.EBUSY}), "tuned.yaml")
	if err == nil || err.Error() != "rename tuned.yaml: device or resource busy" {
		t.Error(err)
	}
}
