package nfs

import (
	"fmt"
	"os"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"golang.org/x/sys/unix"
)

// step is one or more calls that leave the export as it was, so that they can
// be made again and again.
type step struct {
	name  string
	calls []*prepared
}

// do makes the calls, each a new one to the cache of replies.
func (s *step) do(t testing.TB) {
	for _, p := range s.calls {
		p.call.XID = p.x.xids.Add(1) // steps may have calls in common
		p.do(t)
	}
}

// steps are the procedures that clients use most, in a directory within the
// export.
func steps(t testing.TB, c *client) []step {
	d := c.mkdir(c.root(), "sub")
	f := c.mkfile(d, "f")
	for i := range 100 {
		c.mkfile(c.mkdir(d, fmt.Sprint("d", i)), "g")
	}
	guarded := &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o644)}
	remove := func(name string) *prepared {
		return prepare(t, c, 12, &nfsv3.Remove3args{Object: in(d, name)})
	}
	big := c.mkfile(d, "big")
	c.write(big, 0, make([]byte, MaxIO), nfsv3.UNSTABLE)
	read := func(n uint32) []*prepared {
		return []*prepared{prepare(t, c, 6, &nfsv3.Read3args{File: fhOf(big), Count: n})}
	}
	write := func(n int, how nfsv3.StableHow) []*prepared {
		return []*prepared{prepare(t, c, 7, &nfsv3.Write3args{File: fhOf(big), Count: uint32(n), Stable: how, Data: make([]byte, n)})}
	}
	return []step{
		{"READ 4K", read(4096)},
		{"READ 1M", read(MaxIO)},
		{"WRITE 4K", write(4096, nfsv3.UNSTABLE)},
		{"WRITE 4K stable", write(4096, nfsv3.FILE_SYNC)},
		{"WRITE 1M", write(MaxIO, nfsv3.UNSTABLE)},
		{"COMMIT", []*prepared{prepare(t, c, 21, &nfsv3.Commit3args{File: fhOf(big)})}},
		{"GETATTR", []*prepared{prepare(t, c, 1, &nfsv3.Getattr3args{Object: fhOf(f)})}},
		{"SETATTR", []*prepared{prepare(t, c, 2, &nfsv3.Setattr3args{Object: fhOf(f), NewAttributes: withMode(0o644), Guard: noGuard()})}},
		{"LOOKUP", []*prepared{prepare(t, c, 3, &nfsv3.Lookup3args{What: in(d, "f")})}},
		{"ACCESS", []*prepared{prepare(t, c, 4, &nfsv3.Access3args{Object: fhOf(f), Access: 0x3f})}},
		{"CREATE+REMOVE", []*prepared{prepare(t, c, 8, &nfsv3.Create3args{Where: in(d, "new"), How: guarded}), remove("new")}},
		{"EXCLUSIVE+REMOVE", []*prepared{prepare(t, c, 8, &nfsv3.Create3args{Where: in(d, "new"), How: &nfsv3.Createhow3_EXCLUSIVE{}}), remove("new")}},
		{"MKDIR+RMDIR", []*prepared{
			prepare(t, c, 9, &nfsv3.Mkdir3args{Where: in(d, "new"), Attributes: withMode(0o755)}),
			prepare(t, c, 13, &nfsv3.Rmdir3args{Object: in(d, "new")}),
		}},
		{"RENAME twice", []*prepared{
			prepare(t, c, 14, &nfsv3.Rename3args{From: in(d, "f"), To: in(d, "g")}),
			prepare(t, c, 14, &nfsv3.Rename3args{From: in(d, "g"), To: in(d, "f")}),
		}},
		{"READDIRPLUS", []*prepared{prepare(t, c, 17, &nfsv3.Readdirplus3args{Dir: fhOf(d), Dircount: 8192, Maxcount: 65536})}},
	}
}

// BenchmarkSteps has names and attributes synced, as they are unless configured
// otherwise: on a disk that is what it measures. TMPDIR says where.
func BenchmarkSteps(b *testing.B) {
	for _, uid := range []uint32{0, 1000} {
		if !isRoot && uid != 0 {
			continue
		}
		x := serve(b, options{}, func(c *Config) { c.AsyncMetadata = false })
		must(b, os.Chmod(x.dir, 0o777))
		for _, s := range steps(b, x.as(uid, uid)) {
			b.Run(fmt.Sprintf("uid=%d/%s", uid, s.name), func(b *testing.B) {
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					s.do(b)
				}
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processorTime is what this process has used, in nanoseconds: unlike the time
// that went by, other processes add nothing to it.
func processorTime(b *testing.B) int64 {
	var u unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return u.Utime.Nano() + u.Stime.Nano()
}
