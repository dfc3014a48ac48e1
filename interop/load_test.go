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

func testFio1M(t *testing.T, w *work) {
	size := "32M"
	if *longFlag {
		size = "64M"
	}
	fio(t, w, "1M", size)
}

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
// large ones, links and programs. There are three times as many files with -long.
const (
	treeDirs  = 60
	treeFiles = 400
)

// makeTree writes the tree, the same in every run.
func makeTree(t *testing.T, root string) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{1})
	r := rand.New(random)
	files := treeFiles
	if *longFlag {
		files *= 3
	}
	for i := range files {
		d := i % treeDirs
		dir := filepath.Join(root, fmt.Sprintf("part%d", d%6), fmt.Sprintf("sub%d", d%20), fmt.Sprintf("leaf%d", d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		size := int(r.ExpFloat64() * 6000)
		if i%200 == 0 {
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

// eachPart defines each COMMAND, which runs a command for every part of the tree,
// all at once, and fails (under set -e) if one of them does.
const eachPart = `each() {
	pids=
	for p in part0 part1 part2 part3 part4 part5; do "$@" $p & pids="$pids $!"; done
	for pid in $pids; do wait $pid; done
}
`

// testTree unpacks an archive on the mount, in several processes, and compares
// it file by file.
func testTree(t *testing.T, w *work) {
	tree := filepath.Join(w.g.ShareDir, "tree")
	if _, err := os.Stat(tree); err != nil {
		makeTree(t, tree)
		runInDir(t, tree, "for p in part*; do tar cf ../$p.tar $p; done")
	}
	w.talking(t, eachPart+"unpack() { tar xvf /host/$1.tar; }; each unpack")
	same(t, "differences on the server", w.serverSide(t, "diff -r --no-dereference "+w.server.share()+"/tree . || true"), "")
	w.refetch(t)
	w.talking(t, eachPart+`mkdir /tmp/compare
unpack() { tar xf /host/$1.tar -C /tmp/compare; }; each unpack
compare() { diff -rs /tmp/compare/$1 $1; }; each compare
rm -rf /tmp/compare`)
	modes := "find . -type f -perm -111 | wc -l; find . -type l | wc -l; find . | wc -l"
	same(t, "files, links and programs", w.client(t, modes), w.serverSide(t, modes))
}
