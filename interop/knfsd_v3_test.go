package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// NFSv3 procedures (RFC 1813 §3.3).
const (
	v3Getattr = iota + 1
	v3Setattr
	v3Lookup
	v3Access
	v3Readlink
	v3Read
	v3Write
	v3Create
	v3Mkdir
	v3Symlink
	v3Mknod
	v3Remove
	v3Rmdir
	v3Rename
	v3Link
	v3Readdir
	v3Readdirplus
	v3Fsstat
	v3Fsinfo
	v3Pathconf
	v3Commit
)

// v3Reply is the most bytes that results take whose size does not depend on
// names or data (CREATE's).
const v3Reply = 300

// dataSizes are the sizes that one call reads and writes, in bytes.
var dataSizes = []int{0, 1, 3, 4, 5, 1023, 1024, 4095, 4096, 4097, 65535, 262145, 1<<20 - 1, 1 << 20}

// v3 is a session: a directory of its own on the server.
type v3 struct {
	*nfsClient
	t   *testing.T
	ctx context.Context
	dir nfsv3.NfsFh3
}

// v3Call makes a call that must be answered and decodes the results.
func v3Call[R any](v *v3, n nfsCall, read func(io.Reader) (R, int64, error)) R {
	v.t.Helper()
	n.version = 3
	if n.maxReply == 0 {
		n.maxReply = v3Reply
	}
	stream, err := v.do(v.ctx, n)
	if err != nil {
		v.t.Fatalf("procedure %d: %v", n.proc, err)
	}
	res, err := decodeAll(stream, read)
	if err != nil {
		v.t.Fatalf("procedure %d: %v", n.proc, err)
	}
	return res
}

// testV3 is a session with everything that a client does, in an order in which
// each step shows what the one before has done.
func testV3(t *testing.T, s *kernelServer, p rdmacm.Provider, set rpcrdma.Settings) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	v := &v3{nfsClient: s.dial(ctx, t, p, s.address, set), t: t, ctx: ctx}
	root := nfsv3.NfsFh3{Data: s.root}
	fsinfo := as[*nfsv3.Fsinfo3res_NFS3_OK](t, v3Call(v, nfsCall{proc: v3Fsinfo, args: &nfsv3.Fsinfo3args{Fsroot: root}}, nfsv3.ReadFsinfo3res))
	if r := fsinfo.Resok; r.Rtmax != 1<<20 || r.Wtmax != 1<<20 {
		t.Fatalf("the server reads %d and writes %d bytes at most, want 1 MiB", r.Rtmax, r.Wtmax)
	}
	name := strings.ReplaceAll(t.Name(), "/", "-")
	v.dir = root
	v.dir = v.mkdir(name)
	for i, size := range dataSizes {
		v.data(fmt.Sprintf("f%d", size), noise(size, uint64(i)))
	}
	s.checkFiles(t, name)
	v.shortReads("f4097", noise(4097, uint64(slices.Index(dataSizes, 4097))))
	v.attributes("f4096")
	v.links()
	v.list()
	v.remove()
	checkCounters(t, v.nfsClient)
}

// checkCounters compares what the connection counted with what an orderly
// session looks like.
func checkCounters(t *testing.T, c *nfsClient) {
	t.Helper()
	st := c.Stats()
	if st.Calls == 0 || st.Calls != st.Replies || st.Errors+st.BadReplies+st.BadXIDs+st.Dropped != 0 {
		t.Errorf("counters after an orderly session: %+v", st)
	}
	if st.PeerReads == 0 || st.PeerWrites == 0 {
		t.Errorf("nothing went in chunks: %+v", st)
	}
}

// checkFiles compares the server's own view of the files of dataSizes.
func (s *kernelServer) checkFiles(t *testing.T, dir string) {
	t.Helper()
	var want strings.Builder
	for i, size := range dataSizes {
		fmt.Fprintf(&want, "%s  f%d\n", sha(noise(size, uint64(i))), size)
	}
	got := s.view(t, fmt.Sprintf("cd %s && for s in %s; do sha256sum f$s; done", dir, strings.Trim(fmt.Sprint(dataSizes), "[]")))
	same(t, "the server's files", got, want.String())
}

func (v *v3) at(name string) nfsv3.Diropargs3 { return nfsv3.Diropargs3{Dir: v.dir, Name: name} }

// keep sets nothing but the mode.
func keep(mode uint32) nfsv3.Sattr3 {
	return nfsv3.Sattr3{
		Mode: &nfsv3.SetMode3_TRUE{Mode: mode}, Uid: &nfsv3.SetUid3_default{}, Gid: &nfsv3.SetGid3_default{},
		Size: &nfsv3.SetSize3_default{}, Atime: &nfsv3.SetAtime_default{}, Mtime: &nfsv3.SetMtime_default{},
	}
}

func (v *v3) mkdir(name string) nfsv3.NfsFh3 {
	res := v3Call(v, nfsCall{proc: v3Mkdir, args: &nfsv3.Mkdir3args{Where: v.at(name), Attributes: keep(0o755)}}, nfsv3.ReadMkdir3res)
	return as[*nfsv3.PostOpFh3_TRUE](v.t, as[*nfsv3.Mkdir3res_NFS3_OK](v.t, res).Resok.Obj).Handle
}

func (v *v3) create(name string) nfsv3.NfsFh3 {
	args := &nfsv3.Create3args{Where: v.at(name), How: &nfsv3.Createhow3_UNCHECKED{ObjAttributes: keep(0o644)}}
	res := v3Call(v, nfsCall{proc: v3Create, args: args}, nfsv3.ReadCreate3res)
	return as[*nfsv3.PostOpFh3_TRUE](v.t, as[*nfsv3.Create3res_NFS3_OK](v.t, res).Resok.Obj).Handle
}

// write writes all of data at offset 0 to stable storage.
func (v *v3) write(fh nfsv3.NfsFh3, data []byte) {
	v.t.Helper()
	res := v3Call(v, v3WriteCall(fh, data), nfsv3.ReadWrite3res)
	ok := as[*nfsv3.Write3res_NFS3_OK](v.t, res).Resok
	if int(ok.Count) != len(data) || ok.Committed != nfsv3.FILE_SYNC {
		v.t.Fatalf("of %d bytes %d were written, committed %d", len(data), ok.Count, ok.Committed)
	}
}

func v3WriteCall(fh nfsv3.NfsFh3, data []byte) nfsCall {
	args := &nfsv3.Write3args{File: fh, Count: uint32(len(data)), Stable: nfsv3.FILE_SYNC}
	return nfsCall{version: 3, proc: v3Write, args: args, data: data, maxReply: v3Reply}
}

// read reads up to count bytes at offset. There is always room for the
// result, so that it has a chunk although it may be empty.
func (v *v3) read(fh nfsv3.NfsFh3, offset uint64, count int) nfsv3.Read3resok {
	v.t.Helper()
	args := &nfsv3.Read3args{File: fh, Offset: offset, Count: uint32(count)}
	res := v3Call(v, nfsCall{proc: v3Read, args: args, room: max(count, 1)}, nfsv3.ReadRead3res)
	return as[*nfsv3.Read3res_NFS3_OK](v.t, res).Resok
}

func (v *v3) lookup(name string) nfsv3.Lookup3res {
	return v3Call(v, nfsCall{proc: v3Lookup, args: &nfsv3.Lookup3args{What: v.at(name)}}, nfsv3.ReadLookup3res)
}

func (v *v3) handle(name string) nfsv3.NfsFh3 {
	return as[*nfsv3.Lookup3res_NFS3_OK](v.t, v.lookup(name)).Resok.Object
}

func (v *v3) getattr(fh nfsv3.NfsFh3) nfsv3.Fattr3 {
	res := v3Call(v, nfsCall{proc: v3Getattr, args: &nfsv3.Getattr3args{Object: fh}}, nfsv3.ReadGetattr3res)
	return as[*nfsv3.Getattr3res_NFS3_OK](v.t, res).Resok.ObjAttributes
}

// data writes a file with one call and reads it with one call.
func (v *v3) data(name string, data []byte) {
	fh := v.create(name)
	v.write(fh, data)
	got := v.read(fh, 0, len(data))
	if !bytes.Equal(got.Data, data) || !got.Eof || int(got.Count) != len(data) {
		v.t.Errorf("written and read back: %s, end %v", firstDifference(data, got.Data), got.Eof)
	}
}

// shortReads reads with more room than there is to read.
func (v *v3) shortReads(name string, content []byte) {
	fh := v.handle(name)
	for _, c := range []struct{ offset, count, want int }{
		{0, 1 << 20, len(content)}, {1, 8192, len(content) - 1}, {len(content) - 1, 4096, 1}, {len(content), 4096, 0}, {1 << 30, 65536, 0},
	} {
		got := v.read(fh, uint64(c.offset), c.count)
		want := content[min(c.offset, len(content)):][:c.want]
		if !bytes.Equal(got.Data, want) || !got.Eof {
			v.t.Errorf("%d bytes from %d on: %s, end %v", c.count, c.offset, firstDifference(want, got.Data), got.Eof)
		}
	}
}

// attributes truncates, changes the mode, asks for access and commits.
func (v *v3) attributes(name string) {
	fh := v.handle(name)
	set := keep(0o600)
	set.Size = &nfsv3.SetSize3_TRUE{Size: 1000}
	args := &nfsv3.Setattr3args{Object: fh, NewAttributes: set, Guard: &nfsv3.Sattrguard3_FALSE{}}
	as[*nfsv3.Setattr3res_NFS3_OK](v.t, v3Call(v, nfsCall{proc: v3Setattr, args: args}, nfsv3.ReadSetattr3res))
	if a := v.getattr(fh); a.Size != 1000 || a.Mode != 0o600 || a.Type != nfsv3.NF3REG {
		v.t.Errorf("attributes after truncation: %+v", a)
	}
	const all = 0x3f
	access := v3Call(v, nfsCall{proc: v3Access, args: &nfsv3.Access3args{Object: fh, Access: all}}, nfsv3.ReadAccess3res)
	if a := as[*nfsv3.Access3res_NFS3_OK](v.t, access).Resok.Access; a&0xd != 0xd {
		v.t.Errorf("root's access is 0x%x, want to read, modify and extend", a)
	}
	commit := v3Call(v, nfsCall{proc: v3Commit, args: &nfsv3.Commit3args{File: fh}}, nfsv3.ReadCommit3res)
	as[*nfsv3.Commit3res_NFS3_OK](v.t, commit)
}

// links makes a symbolic link so long that the call does not fit the smallest
// Send: the message itself is then read by the server (position zero).
func (v *v3) links() {
	target := strings.Repeat("a/long/way/", 300)
	args := &nfsv3.Symlink3args{Where: v.at("link"), Symlink: nfsv3.Symlinkdata3{SymlinkAttributes: keep(0o777), SymlinkData: target}}
	as[*nfsv3.Symlink3res_NFS3_OK](v.t, v3Call(v, nfsCall{proc: v3Symlink, args: args}, nfsv3.ReadSymlink3res))
	res := v3Call(v, nfsCall{proc: v3Readlink, args: &nfsv3.Readlink3args{Symlink: v.handle("link")}, maxReply: 4200}, nfsv3.ReadReadlink3res)
	if got := as[*nfsv3.Readlink3res_NFS3_OK](v.t, res).Resok.Data; got != target {
		v.t.Errorf("the link leads to %d bytes %.40q..., want %d", len(got), got, len(target))
	}
	rename := &nfsv3.Rename3args{From: v.at("link"), To: v.at("moved")}
	as[*nfsv3.Rename3res_NFS3_OK](v.t, v3Call(v, nfsCall{proc: v3Rename, args: rename}, nfsv3.ReadRename3res))
	if res := v.lookup("link"); res.GetStatus() != nfsv3.NFS3ERR_NOENT {
		v.t.Errorf("the link's old name answers %v", nfsv3.Nfsstat3_name[res.GetStatus()])
	}
}

// list lists the directory with replies larger than any Send.
func (v *v3) list() {
	var names []string
	var cookie uint64
	var verf [8]byte
	for end := false; !end; {
		args := &nfsv3.Readdirplus3args{Dir: v.dir, Cookie: cookie, Cookieverf: verf, Dircount: 8192, Maxcount: 32768}
		res := v3Call(v, nfsCall{proc: v3Readdirplus, args: args, maxReply: 32768}, nfsv3.ReadReaddirplus3res)
		ok := as[*nfsv3.Readdirplus3res_NFS3_OK](v.t, res).Resok
		for e := ok.Reply.Entries; e != nil; e = e.Nextentry {
			names, cookie = append(names, e.Name), e.Cookie
		}
		verf, end = ok.Cookieverf, ok.Reply.Eof
	}
	want := []string{".", "..", "moved"}
	for _, size := range dataSizes {
		want = append(want, fmt.Sprintf("f%d", size))
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		v.t.Errorf("the directory has %q, want %q", names, want)
	}
}

// remove removes a link, fails to remove it again, and fails to remove a file as
// a directory.
func (v *v3) remove() {
	for _, want := range []nfsv3.Nfsstat3{nfsv3.NFS3_OK, nfsv3.NFS3ERR_NOENT} {
		res := v3Call(v, nfsCall{proc: v3Remove, args: &nfsv3.Remove3args{Object: v.at("moved")}}, nfsv3.ReadRemove3res)
		if got := res.GetStatus(); got != want {
			v.t.Errorf("removing the link: %v, want %v", nfsv3.Nfsstat3_name[got], nfsv3.Nfsstat3_name[want])
		}
	}
	dot := v3Call(v, nfsCall{proc: v3Rmdir, args: &nfsv3.Rmdir3args{Object: v.at("f1")}}, nfsv3.ReadRmdir3res)
	if got := dot.GetStatus(); got != nfsv3.NFS3ERR_NOTDIR {
		v.t.Errorf("removing a file as a directory: %v", nfsv3.Nfsstat3_name[got])
	}
}
