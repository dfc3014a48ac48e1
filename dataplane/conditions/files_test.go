package conditions

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
)

func certificate(t *testing.T, from, to time.Time) []byte {
	t.Helper()
	pair, err := authtest.Sign(&x509.Certificate{Subject: pkix.Name{CommonName: "rdmad"}, NotBefore: from, NotAfter: to}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
}

func TestCertificates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rdmad.pem")
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	look := func(want *Reason) {
		t.Helper()
		if r, text, _ := Certificates(file, now); r != want || text == "" {
			t.Errorf("got %s: %s, want %s", r.Name, text, want.Name)
		}
	}
	write := func(text ...byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	look(CertificateUnreadable)
	write([]byte("nothing")...)
	look(CertificateUnreadable)
	good := certificate(t, now.Add(-day), now.Add(15*day))
	write(good...)
	look(CertificateValid)
	now = now.Add(2 * day)
	look(CertificateExpiring)
	now = now.Add(13 * day)
	look(CertificateExpired)
	now = now.Add(-17 * day)
	look(CertificateNotYetValid)
	now = now.Add(2 * day)
	write(append(good, certificate(t, now.Add(-day), now.Add(5*day))...)...)
	look(CertificateExpiring) // the first of those that end
	if err := os.Truncate(file, maxPEM+1); err != nil {
		t.Fatal(err)
	}
	look(CertificateUnreadable)
}

// An old CA that has expired, and one for later, beside the one in use.
func TestAuthorities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	old, present, coming := certificate(t, now.Add(-2*day), now.Add(-day)), certificate(t, now.Add(-day), now.Add(30*day)), certificate(t, now.Add(day), now.Add(60*day))
	for _, c := range []struct {
		all  [][]byte
		want *Reason
	}{
		{nil, CertificateUnreadable},
		{[][]byte{present}, CertificateValid},
		{[][]byte{old, present}, CertificatePartlyValid},
		{[][]byte{present, coming}, CertificatePartlyValid},
		{[][]byte{old}, CertificateExpired},
		{[][]byte{coming}, CertificateNotYetValid},
	} {
		if err := os.WriteFile(file, bytes.Join(c.all, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		if r, text, _ := Authorities(file, now); r != c.want || text == "" {
			t.Errorf("got %s: %s, want %s", r.Name, text, c.want.Name)
		}
	}
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// An exported directory whose file system is remounted read-only, or that is gone.
func TestPrivilegedExport(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "size=1m")
	look := func(want *Reason) {
		t.Helper()
		if r, text := ExportDirectory(dir); r != want || text == "" {
			t.Errorf("got %s: %s, want %s", r.Name, text, want.Name)
		}
	}
	look(ExportServed)
	remount(t, dir, unix.MS_RDONLY)
	look(ExportReadOnly)
	remount(t, dir, 0)
	look(ExportServed)
	dir += "/gone"
	look(ExportUnusable)
}

func TestStateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	lock := filepath.Join(dir, "lock")
	make := func() fs.FileInfo {
		t.Helper()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return stat(t, lock)
	}
	locked := make()
	look := func(want *Reason) {
		t.Helper()
		if r, text := StateDirectory(dir, locked); r != want || text == "" {
			t.Errorf("got %s: %s, want %s", r.Name, text, want.Name)
		}
	}
	look(StateWritable)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	look(StateUnusable)
	make()
	look(StateReplaced)
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	look(StateReplaced)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	look(StateWritable)
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("looking left %v, %v", all, err)
	}
}

// A state directory on a disk that fills up, and that the kernel makes read-only.
func TestPrivilegedState(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "size=66m")
	lock := filepath.Join(dir, "lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(want *Reason) {
		t.Helper()
		if r, text := StateDirectory(dir, stat(t, lock)); r != want {
			t.Errorf("got %s: %s, want %s", r.Name, text, want.Name)
		}
	}
	fill := func(bytes int64) {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, "fill"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := unix.Fallocate(int(f.Fd()), 0, 0, bytes); err != nil {
			t.Fatal(err)
		}
	}
	look(StateWritable)
	fill(4 << 20)
	look(StateLowSpace)
	fill(66 << 20)
	look(StateFull)
	fill(1)
	look(StateWritable)
	remount(t, dir, unix.MS_RDONLY)
	look(StateReadOnly)
	remount(t, dir, 0)
	look(StateWritable)
}

// Free space counts in units of f_frsize: f_bsize is only the best size for reads and writes, and FUSE has
// file systems where they differ.
func TestFreeSpace(t *testing.T) {
	for _, c := range []struct {
		st      unix.Statfs_t
		free    uint64
		bounded bool
	}{
		{unix.Statfs_t{Bsize: 1 << 20, Frsize: 4096, Blocks: 100, Bavail: 10}, 10 * 4096, true},
		{unix.Statfs_t{Bsize: 4096, Frsize: 1 << 20, Blocks: 100, Bavail: 10}, 10 << 20, true},
		{unix.Statfs_t{Bsize: 4096, Blocks: 100, Bavail: 10}, 10 * 4096, true}, // without f_frsize
		{unix.Statfs_t{Bsize: 4096, Frsize: 4096}, 0, false},
	} {
		if free, bounded := FreeSpace(&c.st); free != c.free || bounded != c.bounded {
			t.Errorf("%+v: %d bytes, %t", c.st, free, bounded)
		}
	}
}

func remount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
		t.Fatal(err)
	}
}

// mount puts a file system in memory at dir until the test ends. It takes root.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
