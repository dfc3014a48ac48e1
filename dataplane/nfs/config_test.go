package nfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
)

func TestSquashNames(t *testing.T) {
	for name, want := range map[string]Squash{"": SquashNone, "none": SquashNone, "root": SquashRoot, "all": SquashAll} {
		if got, err := ParseSquash(name); err != nil || got != want {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := ParseSquash("None"); err == nil {
		t.Error("a wrong name is taken")
	}
}

func TestDefaults(t *testing.T) {
	c, err := Config{Export: Export{Path: "/"}}.withDefaults()
	must(t, err)
	if c.AnonUID != Anonymous || c.AnonGID != Anonymous || c.IdleClose != defaultIdle || c.Logger == nil ||
		c.MaxOpenFiles < minFiles || c.MaxOpenFiles > defaultMaxFiles {
		t.Errorf("%+v", c)
	}
}

// What can't be served is refused with a line that names it, and leaves
// nothing open.
func TestNewErrors(t *testing.T) {
	dir := tempDir(t)
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	export := filepath.Join(dir, "export")
	must(t, os.Mkdir(export, 0o755))
	before := openFiles(t)
	for name, tc := range map[string]struct {
		cfg  Config
		want string
	}{
		"no path":   {Config{}, "no path"},
		"missing":   {Config{Export: Export{Path: filepath.Join(dir, "none")}}, "none"},
		"a file":    {Config{Export: Export{Path: file}}, file},
		"bad state": {Config{Export: Export{Path: export}, StateDir: file}, file},
		"squash":    {Config{Export: Export{Path: export, Options: Options{Squash: 3}}}, "squash"},
	} {
		s, err := New(tc.cfg)
		if err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
			continue
		}
		if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(files)
}

// A server leaves no descriptor behind.
func TestNothingIsLeftOpen(t *testing.T) {
	eachMode(t, func(t *testing.T, opt options) {
		x := serve(t, opt)
		must(t, x.Close())
		before := openFiles(t)
		x.start()
		c := x.me()
		root := c.root()
		d := c.mkdir(root, "d")
		f := c.mkfile(d, "f")
		c.write(f, 0, []byte("x"), nfsv3.UNSTABLE)
		for proc := uint32(1); proc < procedureCount; proc++ {
			c.status(proc, argsFor(proc, d))
			c.status(proc, argsFor(proc, f))
		}
		x.restart()
		c.read(f, 0, 1)
		c.list(d, true, 4096, nothing)
		must(t, x.Close())
		if after := openFiles(t); after != before {
			t.Errorf("%d descriptors are open, %d before", after, before)
		}
	})
}

// Without a state directory the server works, but for one life only.
func TestWithoutState(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.StateDir = "" })
	c := x.me()
	root := c.root()
	c.want(1, argsFor(1, root), nfsv3.NFS3_OK)
	x.restart()
	c.want(1, argsFor(1, root), nfsv3.NFS3ERR_STALE)
}

// Without AsyncMetadata, all procedures work as with it.
func TestSyncMetadata(t *testing.T) {
	x := serve(t, options{}, func(c *Config) { c.AsyncMetadata = false })
	c := x.me()
	root := c.root()
	d := c.mkdir(root, "d")
	f := c.mkfile(root, "f")
	c.mustSet(f, withMode(0o600))
	c.want(10, argsFor(10, d), nfsv3.NFS3_OK)
	c.want(15, &nfsv3.Link3args{File: fhOf(f), Link: in(d, "g")}, nfsv3.NFS3_OK)
	c.want(14, &nfsv3.Rename3args{From: in(root, "f"), To: in(d, "f")}, nfsv3.NFS3_OK)
	c.want(12, &nfsv3.Remove3args{Object: in(d, "f")}, nfsv3.NFS3_OK)
	for i, how := range []nfsv3.Createhow3{
		&nfsv3.Createhow3_EXCLUSIVE{Verf: [8]byte{1, 2, 3}},
		&nfsv3.Createhow3_GUARDED{ObjAttributes: withSize(100)},
		&nfsv3.Createhow3_UNCHECKED{ObjAttributes: withMode(0o4755)},
	} {
		if _, status := c.create(d, fmt.Sprint("new", i), how); status != nfsv3.NFS3_OK {
			t.Errorf("CREATE: %v", nfsv3.Nfsstat3_name[status])
		}
	}
}

// Every error of the kernel that can come has its status.
func TestStatuses(t *testing.T) {
	for err, want := range map[error]nfsv3.Nfsstat3{
		nil:                                 nfsv3.NFS3_OK,
		errStale:                            nfsv3.NFS3ERR_STALE,
		unix.EPERM:                          nfsv3.NFS3ERR_PERM,
		unix.ENOENT:                         nfsv3.NFS3ERR_NOENT,
		unix.EIO:                            nfsv3.NFS3ERR_IO,
		unix.ENXIO:                          nfsv3.NFS3ERR_NXIO,
		unix.EACCES:                         nfsv3.NFS3ERR_ACCES,
		unix.EEXIST:                         nfsv3.NFS3ERR_EXIST,
		unix.EXDEV:                          nfsv3.NFS3ERR_XDEV,
		unix.ENODEV:                         nfsv3.NFS3ERR_NODEV,
		unix.ENOTDIR:                        nfsv3.NFS3ERR_NOTDIR,
		unix.EISDIR:                         nfsv3.NFS3ERR_ISDIR,
		unix.EINVAL:                         nfsv3.NFS3ERR_INVAL,
		unix.EFBIG:                          nfsv3.NFS3ERR_FBIG,
		unix.ENOSPC:                         nfsv3.NFS3ERR_NOSPC,
		unix.EROFS:                          nfsv3.NFS3ERR_ROFS,
		unix.EMLINK:                         nfsv3.NFS3ERR_MLINK,
		unix.ENAMETOOLONG:                   nfsv3.NFS3ERR_NAMETOOLONG,
		unix.ENOTEMPTY:                      nfsv3.NFS3ERR_NOTEMPTY,
		unix.EDQUOT:                         nfsv3.NFS3ERR_DQUOT,
		unix.ENOKEY:                         nfsv3.NFS3ERR_PERM,
		unix.ESTALE:                         nfsv3.NFS3ERR_STALE,
		unix.EOPNOTSUPP:                     nfsv3.NFS3ERR_NOTSUPP,
		unix.EBUSY:                          nfsv3.NFS3ERR_ACCES,
		unix.ENOMEM:                         nfsv3.NFS3ERR_JUKEBOX,
		unix.EMFILE:                         nfsv3.NFS3ERR_JUKEBOX,
		context.Canceled:                    nfsv3.NFS3ERR_JUKEBOX,
		fmt.Errorf("wrapped: %w", unix.EIO): nfsv3.NFS3ERR_IO,
		&os.PathError{Err: unix.EMLINK}:     nfsv3.NFS3ERR_MLINK,
	} {
		if got, known := statusOf(err); got != want || !known {
			t.Errorf("%v: %v, known %v", err, nfsv3.Nfsstat3_name[got], known)
		}
	}
	for _, err := range []error{errors.New("new"), unix.EBADF, unix.EFAULT} {
		if got, known := statusOf(err); got != nfsv3.NFS3ERR_SERVERFAULT || known {
			t.Errorf("%v: %v, known %v", err, nfsv3.Nfsstat3_name[got], known)
		}
	}
	if s := errStale.Error(); s != "nfs: NFS3ERR_STALE" {
		t.Error(s)
	}
	if s := statusError(4711).Error(); s != "nfs: unknown status" {
		t.Error(s)
	}
}

// brokenLocator fails in a way that nobody has foreseen.
type brokenLocator struct{ locator }

func (brokenLocator) open(*request, fh.ID) (int, error) { return -1, unix.EBADF }

// An unforeseen error is answered and logged.
func TestUnforeseenErrorsAreLogged(t *testing.T) {
	var log bytes.Buffer
	x := serve(t, options{}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	c := x.me()
	f := c.mkfile(c.root(), "f")
	x.restart()
	x.locate = brokenLocator{x.locate}
	c.want(1, argsFor(1, f), nfsv3.NFS3ERR_SERVERFAULT)
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "GETATTR") || !strings.Contains(log.String(), "192.0.2.1") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}
