package image

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"
	"golang.org/x/sys/unix"
)

func TestParseSet(t *testing.T) {
	got, err := parseSet(strings.NewReader("kernel 6.1.0-9-amd64\ndeb fio_3_amd64.deb\ndeb linux-source-6.1_1_all.deb\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Kernel != "6.1.0-9-amd64" || !slices.Equal(got.Debs, []string{"fio_3_amd64.deb", "linux-source-6.1_1_all.deb"}) {
		t.Errorf("got %+v", got)
	}
	if source, err := got.source(); err != nil || source != "linux-source-6.1_1_all.deb" {
		t.Errorf("source package %q, error %v", source, err)
	}
	for _, bad := range []string{"", "kernel 6\n", "kernel 6\ndeb ../x.deb\n", "kernel 6\nrpm x\n"} {
		if set, err := parseSet(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, set)
		}
	}
}

func TestFindNamesWhatIsMissing(t *testing.T) {
	script := filepath.Join(t.TempDir(), "deps.sh")
	text := "[ $1 = check ] || [ $1 = newer ] || [ $1 = ceph ] || exit 2\necho 'missing: qemu' >&2\nexit 3\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Find(t.Context(), script, Stock)
	_, newerErr := Find(t.Context(), script, Newer)
	_, unpackErr := Unpacked(t.Context(), script, "ceph", t.Logf)
	for _, err := range []error{err, newerErr, unpackErr} {
		var missing *MissingError
		if !errors.As(err, &missing) || missing.Line != "missing: qemu" {
			t.Errorf("got %v, want a MissingError with the script's line", err)
		}
	}
}

func TestFindWantsAKernel(t *testing.T) {
	dir := t.TempDir()
	script, list := filepath.Join(dir, "deps.sh"), filepath.Join(dir, "list")
	if err := errors.Join(os.WriteFile(script, []byte("echo "+list), 0o600), os.WriteFile(list, []byte("deb x.deb\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if set, err := Find(t.Context(), script, Stock); err == nil {
		t.Errorf("a list without a kernel was read as %+v", set)
	}
}

func TestKeyFollowsPackagesAndRecipe(t *testing.T) {
	set := Set{Kernel: "6.1", Debs: []string{"a_1.deb"}}
	key := standard.key(set)
	other := standard
	other.modules = append(slices.Clone(other.modules), "x")
	for name, changed := range map[string]string{
		"package": standard.key(Set{Kernel: "6.1", Debs: []string{"a_2.deb"}}),
		"kernel":  standard.key(Set{Kernel: "6.2", Debs: []string{"a_1.deb"}}),
		"recipe":  other.key(set),
	} {
		if changed == key {
			t.Errorf("a change of the %s leaves the key as it was", name)
		}
	}
	if again := standard.key(Set{Kernel: "6.1", Debs: []string{"a_1.deb"}, Cache: "/x"}); again != key {
		t.Error("the place of the cache changes the key")
	}
}

func TestModuleClosure(t *testing.T) {
	deps, err := parseModuleDeps(
		"kernel/net/9p/9pnet-virtio.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/virtio.ko.xz\n"+
			"kernel/net/9p/9pnet.ko.xz:\nkernel/virtio.ko.xz:\nupdates/siw.ko: kernel/virtio.ko.xz\n",
		"kernel/drivers/virtio/virtio_pci.ko\n")
	if err != nil {
		t.Fatal(err)
	}
	got, err := deps.closure([]string{"9pnet_virtio", "virtio_pci", "siw"})
	want := []string{"kernel/net/9p/9pnet-virtio.ko.xz", "kernel/net/9p/9pnet.ko.xz", "kernel/virtio.ko.xz", "updates/siw.ko"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, error %v, want %q", got, err, want)
	}
	if _, err := deps.closure([]string{"nfsd"}); err == nil {
		t.Error("a module that is not there was found")
	}
}

func TestLinkerFollowsLinks(t *testing.T) {
	root := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := copyFile(program, filepath.Join(root, "usr/bin/kmod"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "usr/sbin"), 0o755); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{"usr/sbin/modprobe": "/bin/kmod", "usr/sbin/insmod": "modprobe"}
	for link, target := range links {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	l := &linker{root: root, dirs: []string{"usr/lib"}}
	if l.resolve("usr/sbin/x", "../bin/kmod") != "usr/bin/kmod" {
		t.Error("a relative link is not resolved from its directory")
	}
	// The test program may itself need libraries: only what comes before matters.
	needs, err := l.needs("usr/sbin/insmod")
	if err != nil || !slices.Equal(needs, []string{"usr/sbin/modprobe"}) {
		t.Errorf("insmod needs %q, error %v", needs, err)
	}
	needs, err = l.needs("usr/sbin/modprobe")
	if err != nil || !slices.Equal(needs, []string{"usr/bin/kmod"}) {
		t.Errorf("modprobe needs %q, error %v", needs, err)
	}
	if _, err := l.find("libnowhere.so.1", l.dirs); err == nil {
		t.Error("a library that is not there was found")
	}
}

func TestInitramfsHoldsTree(t *testing.T) {
	tree := t.TempDir()
	if err := makeRoot(tree); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree, "usr/bin/tool"), []byte("tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "initramfs")
	if err := writeInitramfs(path, tree); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := cpio.ArchiveFromReader(cpio.Newc.Reader(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"usr/bin/tool", "bin", "lib64", "dev/console", "etc/passwd", "proc"} {
		if _, ok := archive.Get(name); !ok {
			t.Errorf("no %s in the archive", name)
		}
	}
	if len(data)%4 != 0 {
		t.Errorf("%d bytes: what is appended would not be aligned", len(data))
	}
}

func TestPipeline(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	err := pipeline(t.Context(), []string{"echo", "text"}, []string{"tee", out})
	if got, readErr := os.ReadFile(out); err != nil || readErr != nil || string(got) != "text\n" {
		t.Errorf("got %q, errors %v, %v", got, err, readErr)
	}
	// The first program writes for ever to one that has ended.
	err = pipeline(context.Background(), []string{"yes"}, []string{"false"})
	if err == nil || !strings.Contains(err.Error(), "false: exit status 1") {
		t.Errorf("got %v, want the failure of the last program", err)
	}
	if err := pipeline(t.Context(), []string{"yes"}, []string{"/nonexistent"}); err == nil {
		t.Error("a program that can't be started went unnoticed")
	}
}

// TestCached checks that a missing directory is built in one step and only
// once.
func TestCached(t *testing.T) {
	set := Set{Cache: t.TempDir()}
	broken := errors.New("broken")
	for i, c := range []struct {
		fails error
		built bool
	}{{broken, true}, {nil, true}, {broken, false}} {
		built := false
		dir, err := cached(set, "x", func(work string) (string, error) {
			built = true
			made := filepath.Join(work, "made")
			return made, errors.Join(c.fails, os.Mkdir(made, 0o755))
		})
		if built != c.built || exists(filepath.Join(set.Cache, "x")) != (i > 0) || (err == nil) != exists(dir) {
			t.Errorf("%d: built %v, %q, %v", i, built, dir, err)
		}
		if left, _ := filepath.Glob(filepath.Join(set.Cache, "build-*")); len(left) > 0 {
			t.Errorf("%d: %q is left", i, left)
		}
	}
}

func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("a second holder: %v, want EWOULDBLOCK", err)
	}
	unlock()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("after unlock: %v", err)
	}
}
