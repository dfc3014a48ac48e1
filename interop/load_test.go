package interop

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testFio4K(t *testing.T, w *work) { fio(t, w, "4k", "8M") }

func testFio1M(t *testing.T, w *work) { fio(t, w, "1M", "64M") }

// fio reads and writes at random places, sixteen requests at a time, and then
// reads everything again and checks it.
func fio(t *testing.T, w *work, blockSize, size string) {
	out := w.client(t, fmt.Sprintf(`fio --name=verify --filename=data --rw=randrw --bs=%s --size=%s --iodepth=16 \
	--ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 --randseed=7 --allow_file_create=1 2>&1`, blockSize, size))
	if !strings.Contains(out, "err= 0") {
		t.Errorf("fio says:\n%s", out)
	}
	t.Log(summary(out))
}

// summary is the lines of fio's report that say how much was moved.
func summary(report string) string {
	var lines []string
	for line := range strings.Lines(report) {
		if strings.Contains(line, "IOPS=") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "; ")
}

// Tree of a kernel's shape: directories three deep, many small files, a few
// large ones, links and programs.
const (
	treeDirs  = 60
	treeFiles = 1200
)

// makeTree writes the tree, the same in every run.
func makeTree(t *testing.T, root string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	r := rand.New(random)
	for i := range treeFiles {
		d := i % treeDirs
		dir := filepath.Join(root, fmt.Sprintf("part%d", d%6), fmt.Sprintf("sub%d", d%20), fmt.Sprintf("leaf%d", d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		size := int(r.ExpFloat64() * 6000)
		if i%400 == 0 {
			size += 300000
		}
		data := make([]byte, size)
		random.Read(data)
		path := filepath.Join(dir, fmt.Sprintf("file-%d.c", i))
		if err := os.WriteFile(path, data, 0o644|os.FileMode(i%7/6)*0o111); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			if err := os.Symlink(filepath.Base(path), path+".link"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// testTree unpacks an archive on the mount and compares it file by file.
func testTree(t *testing.T, w *work) {
	tree := filepath.Join(w.g.ShareDir, "tree")
	if _, err := os.Stat(tree); err != nil {
		makeTree(t, tree)
		runInDir(t, w.g.ShareDir, "tar cf tree.tar tree")
	}
	w.client(t, "tar xf /host/tree.tar")
	same(t, "differences on the server", w.serverSide(t, "diff -r --no-dereference "+w.server.share()+"/tree tree || true"), "")
	w.refetch(t)
	w.client(t, "mkdir /tmp/compare; tar xf /host/tree.tar -C /tmp/compare")
	same(t, "differences on the client", w.client(t, "diff -r /tmp/compare/tree tree || true; rm -rf /tmp/compare"), "")
	modes := "find tree -type f -perm -111 | wc -l; find tree -type l | wc -l; find tree | wc -l"
	same(t, "files, links and programs", w.client(t, modes), w.serverSide(t, modes))
}
