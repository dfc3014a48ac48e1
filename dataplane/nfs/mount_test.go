package nfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func TestMountPaths(t *testing.T) {
	x := serve(t, options{})
	must(t, os.MkdirAll(x.path("sub/deeper"), 0o755))
	must(t, os.WriteFile(x.path("file"), nil, 0o644))
	c := x.me()
	root := c.root()
	sub := c.mustLookup(root, "sub")
	deeper := c.mustLookup(sub, "deeper")
	for path, want := range map[string][]byte{
		"/": root, "/export": root, "/export/": root, x.dir: root, "/" + filepath.Base(x.dir): root, "//export": nil,
		"/export/sub": sub, "/export//sub/": sub, "/export/./sub/deeper": deeper, x.dir + "/sub": sub, "/sub": sub,
	} {
		if h, status := c.mnt(path); !bytes.Equal(h, want) {
			t.Errorf("%s: %v, another handle", path, mount.Mountstat3_name[status])
		}
	}
	for path, want := range map[string]mount.Mountstat3{
		"": mount.MNT3ERR_INVAL, "export": mount.MNT3ERR_INVAL, "/exp\x00": mount.MNT3ERR_INVAL,
		"/none": mount.MNT3ERR_NOENT, "/export2": mount.MNT3ERR_NOENT, "/export/file": mount.MNT3ERR_NOTDIR,
		"/export/file/x": mount.MNT3ERR_NOTDIR, "/export/..": mount.MNT3ERR_ACCES, "/export/sub/../..": mount.MNT3ERR_ACCES,
		"/" + strings.Repeat("x", 300): mount.MNT3ERR_NAMETOOLONG, "/" + strings.Repeat("x/", 600): mount.MNT3ERR_NAMETOOLONG,
	} {
		if _, status := c.mnt(path); status != want {
			t.Errorf("%.20q: %v, want %v", path, mount.Mountstat3_name[status], mount.Mountstat3_name[want])
		}
	}
}

// TestMountOfRemovedExport deletes the exported directory. MNT fails and returns no
// stale handle, also when another directory has the name now. The log says so.
func TestMountOfRemovedExport(t *testing.T) {
	var log bytes.Buffer
	x := serve(t, options{}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	c := x.me()
	c.root()
	must(t, os.Remove(x.dir))
	for range 2 {
		for _, path := range []string{"/", "/export", x.dir, "/export/sub"} {
			if _, status := c.mnt(path); status != mount.MNT3ERR_NOENT {
				t.Errorf("%s: %v", path, mount.Mountstat3_name[status])
			}
		}
		must(t, os.MkdirAll(x.path("sub"), 0o755))
	}
	if !strings.Contains(log.String(), x.dir) {
		t.Errorf("log:\n%s", log.String())
	}
	x.restart()
	if _, status := c.mnt("/export/sub"); status != mount.MNT3_OK {
		t.Errorf("after a restart: %v", mount.Mountstat3_name[status])
	}
}

func (c *client) mountCall(version, proc uint32, args []byte) *bytes.Reader {
	c.x.t.Helper()
	out, err := c.raw(MountProgram, version, proc, 1, oncrpc.Payload{Stream: args})
	must(c.x.t, err)
	return bytes.NewReader(out)
}

func (c *client) dump() string {
	c.x.t.Helper()
	var b strings.Builder
	for e := decoded(c, c.mountCall(3, mountDump, nil), mount.ReadMountlist); e != nil; e = e.MlNext {
		fmt.Fprintf(&b, "%s:%s ", e.MlHostname, e.MlDirectory)
	}
	return b.String()
}

func TestMountList(t *testing.T) {
	x := serve(t, options{})
	must(t, os.Mkdir(x.path("sub"), 0o755))
	a, b := x.me(), x.me()
	b.peer = netip.MustParseAddrPort("[2001:db8::1]:700")
	steps := []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { a.mnt("/export"); a.mnt("/export"); a.mnt("/none") }, "192.0.2.1:/export "},
		{func() { b.mnt("/export"); a.mnt("/export/sub") }, "192.0.2.1:/export 2001:db8::1:/export 192.0.2.1:/export/sub "},
		{func() { a.mountCall(3, mountUmnt, xdr.AppendString(nil, "/export")) }, "2001:db8::1:/export 192.0.2.1:/export/sub "},
		{func() { a.mountCall(3, mountUmntAll, nil) }, "2001:db8::1:/export "},
	}
	for i, s := range steps {
		s.do()
		if got := a.dump(); got != s.want {
			t.Errorf("step %d: %q, want %q", i, got, s.want)
		}
	}
	for i := range 3 * maxMounts {
		x.server.mounts.add(mounted{b.peer.Addr(), fmt.Sprint(i)})
	}
	if n := len(x.server.mounts.list); n != maxMounts {
		t.Errorf("%d mounts are kept", n)
	}
}

// mountOf makes a MNT of the export.
func mountOf(ctx context.Context, x *export) mount.Mountstat3 {
	call := &oncrpc.Call{XID: 1, Program: MountProgram, Version: 3, Procedure: mountMnt, Args: oncrpc.Payload{Stream: xdr.AppendString(nil, "/export")}}
	var reply oncrpc.Reply
	if err := x.ServeRPC(ctx, call, &reply); err != nil {
		x.t.Error(err)
	}
	return mount.Mountstat3(binary.BigEndian.Uint32(reply.Stream))
}

// TestMountOfHungExport: while the file system of an export hangs, few MNTs are in it. Others end
// with their clients.
func TestMountOfHungExport(t *testing.T) {
	x := serve(t, options{})
	x.export.mu.Lock() // as a look at the path that hangs does
	var inside sync.WaitGroup
	for range mostMounting {
		inside.Go(func() {
			if status := mountOf(t.Context(), x); status != mount.MNT3_OK {
				t.Errorf("%v when it does not hang any more", mount.Mountstat3_name[status])
			}
		})
	}
	for len(x.export.mounting) < mostMounting {
		runtime.Gosched()
	}
	ctx, gone := context.WithCancel(t.Context())
	gone()
	if status := mountOf(ctx, x); status != mount.MNT3ERR_SERVERFAULT {
		t.Errorf("%v for a client that has gone", mount.Mountstat3_name[status])
	}
	x.export.mu.Unlock()
	inside.Wait()
	if status := mountOf(t.Context(), x); status != mount.MNT3_OK {
		t.Errorf("%v afterwards", mount.Mountstat3_name[status])
	}
}

// TestMountGivesUp: a MNT ends when its client has given up, too, which a connection does not show.
func TestMountGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := serve(t, options{})
		for range cap(x.export.mounting) {
			x.export.mounting <- struct{}{}
		}
		if status := mountOf(t.Context(), x); status != mount.MNT3ERR_SERVERFAULT {
			t.Errorf("%v", mount.Mountstat3_name[status])
		}
	})
}

func TestMountExports(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	for version := uint32(1); version <= 3; version++ {
		e := decoded(c, c.mountCall(version, mountExport, nil), mount.ReadExports)
		if e == nil || e.ExDir != "/export" || e.ExGroups != nil || e.ExNext != nil {
			t.Errorf("version %d: %+v", version, e)
		}
	}
}

// Handles don't fit into version 1: it refuses, in its own words.
func TestMountVersion1(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	res := decoded(c, c.mountCall(1, mountMnt, xdr.AppendString(nil, "/export")), mount.ReadFhstatus)
	if res.GetStatus() != uint32(mount.MNT3ERR_ACCES) {
		t.Errorf("status %d", res.GetStatus())
	}
}

func TestMountFlavors(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	res := decoded(c, c.mountCall(3, mountMnt, xdr.AppendString(nil, "/export")), mount.ReadMountres3)
	ok, is := res.(*mount.Mountres3_MNT3_OK)
	if !is || len(ok.Mountinfo.AuthFlavors) == 0 || ok.Mountinfo.AuthFlavors[0] != oncrpc.FlavorSys {
		t.Errorf("%+v", res)
	}
}

// The largest size of FSINFO is that of the file system, as far as it can be found out.
func TestLargestFile(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	f := c.mkfile(c.root(), "f")
	info, ok := decoded(c, c.nfs(19, argsFor(19, f)), nfsv3.ReadFsinfo3res).(*nfsv3.Fsinfo3res_NFS3_OK)
	if !ok {
		t.Fatal("FSINFO failed")
	}
	largest := info.Resok.Maxfilesize
	fd, err := unix.Open(x.dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		if largest != x.process.maxFile {
			t.Errorf("%d, though it is unknown", largest)
		}
		return
	}
	must(t, unix.Close(fd))
	if err := os.Truncate(x.path("f"), int64(largest)); err != nil {
		t.Errorf("a file of %d bytes: %v", largest, err)
	}
	if largest < x.process.maxFile {
		if err := os.Truncate(x.path("f"), int64(largest)+1); !errors.Is(err, unix.EFBIG) {
			t.Errorf("a file of %d bytes: %v", largest+1, err)
		}
	}
	c.want(7, &nfsv3.Write3args{File: fhOf(f), Offset: largest, Count: 1, Data: []byte{1}}, nfsv3.NFS3ERR_FBIG)
}

// A file that has no positions does not show the largest size, which is no reason to accept no WRITE.
func TestLargestFileIsUnknown(t *testing.T) {
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	const most = 1<<63 - 1
	if got := largestPosition(int(w.Fd()), most); got != most {
		t.Errorf("%d", got)
	}
}

// MNT says that access is denied only where that is so.
func TestMountStatuses(t *testing.T) {
	for err, want := range map[error]mount.Mountstat3{
		unix.EACCES: mount.MNT3ERR_ACCES, errAccess: mount.MNT3ERR_ACCES, unix.ENOENT: mount.MNT3ERR_NOENT, errNotDir: mount.MNT3ERR_NOTDIR,
		unix.EIO: mount.MNT3ERR_IO, errNameTooLong: mount.MNT3ERR_NAMETOOLONG,
		unix.ESTALE: mount.MNT3ERR_NOENT, unix.EMFILE: mount.MNT3ERR_SERVERFAULT, unix.ENOMEM: mount.MNT3ERR_SERVERFAULT, errHandleSize: mount.MNT3ERR_SERVERFAULT,
	} {
		if got := mountStatus(err); got != want {
			t.Errorf("%v: %v, want %v", err, mount.Mountstat3_name[got], mount.Mountstat3_name[want])
		}
	}
}

func TestFileSystemProcedures(t *testing.T) {
	x := serve(t, options{})
	c := x.me()
	root := c.root()
	info, ok := decoded(c, c.nfs(19, argsFor(19, root)), nfsv3.ReadFsinfo3res).(*nfsv3.Fsinfo3res_NFS3_OK)
	if !ok {
		t.Fatal("FSINFO failed")
	}
	got := info.Resok
	if attrOf(got.ObjAttributes) == nil || got.Rtmax != MaxIO || got.Rtpref != MaxIO || got.Wtmax != MaxIO || got.Wtpref != MaxIO ||
		got.Rtmult != ioMultiple || got.Wtmult != ioMultiple || got.Dtpref != maxDirReply || got.Maxfilesize != x.maxFile ||
		got.TimeDelta != (nfsv3.Nfstime3{Nseconds: 1}) || got.Properties != 0x1b {
		t.Errorf("FSINFO: %+v", got)
	}
	stat, ok := decoded(c, c.nfs(18, argsFor(18, root)), nfsv3.ReadFsstat3res).(*nfsv3.Fsstat3res_NFS3_OK)
	if !ok {
		t.Fatal("FSSTAT failed")
	}
	if s := stat.Resok; s.Tbytes == 0 || s.Fbytes > s.Tbytes || s.Abytes > s.Fbytes || s.Ffiles > s.Tfiles || s.Invarsec != 0 {
		t.Errorf("FSSTAT: %+v", s)
	}
	conf, ok := decoded(c, c.nfs(20, argsFor(20, root)), nfsv3.ReadPathconf3res).(*nfsv3.Pathconf3res_NFS3_OK)
	if !ok {
		t.Fatal("PATHCONF failed")
	}
	if p := conf.Resok; p.NameMax != 255 || p.Linkmax < 255 || !p.NoTrunc || !p.ChownRestricted || p.CaseInsensitive || !p.CasePreserving {
		t.Errorf("PATHCONF: %+v", p)
	}
}
