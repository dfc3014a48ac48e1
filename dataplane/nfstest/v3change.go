package nfstest

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// status makes a call and fails unless its status is NFS3_OK.
func (c *Client3) status(what string, proc uint32, args io.WriterTo, call *Call) (results []byte) {
	c.T.Helper()
	call.MaxReply = headRoom
	results, err := c.call(proc, args, call)
	d := xdr.NewDecoder(results)
	if status := d.Uint32(); err != nil || status != 0 {
		c.T.Errorf("%s: status %d, %v", what, status, errors.Join(err, d.Err()))
	}
	return results
}

// in is a name in the root, as an argument.
func (c *Client3) in(name string) nfsv3.Diropargs3 {
	return nfsv3.Diropargs3{Dir: nfsv3.NfsFh3{Data: c.Root}, Name: name}
}

// noAttributes is an sattr3 that sets nothing.
func noAttributes() nfsv3.Sattr3 {
	return nfsv3.Sattr3{Mode: &nfsv3.SetMode3_default{}, Uid: &nfsv3.SetUid3_default{}, Gid: &nfsv3.SetGid3_default{},
		Size: &nfsv3.SetSize3_default{}, Atime: &nfsv3.SetAtime_default{}, Mtime: &nfsv3.SetMtime_default{}}
}

// Create makes a file in the root and returns its handle.
func (c *Client3) Create(name string) []byte {
	c.T.Helper()
	results := c.status("CREATE", 8, &nfsv3.Create3args{Where: c.in(name), How: &nfsv3.Createhow3_GUARDED{ObjAttributes: noAttributes()}}, new(Call))
	res, _, err := nfsv3.ReadCreate3res(bytes.NewReader(results))
	ok, is := res.(*nfsv3.Create3res_NFS3_OK)
	if err != nil || !is {
		c.T.Errorf("CREATE: %v, %T", err, res)
		return nil
	}
	made, is := ok.Resok.Obj.(*nfsv3.PostOpFh3_TRUE)
	if !is {
		c.T.Error("CREATE: no handle")
		return nil
	}
	return made.Handle.Data
}

// Mkdir makes a directory in the root.
func (c *Client3) Mkdir(name string) {
	c.T.Helper()
	c.status("MKDIR", 9, &nfsv3.Mkdir3args{Where: c.in(name), Attributes: noAttributes()}, new(Call))
}

// Symlink makes a symbolic link in the root.
func (c *Client3) Symlink(name, target string) {
	c.T.Helper()
	link := nfsv3.Symlinkdata3{SymlinkAttributes: noAttributes(), SymlinkData: target}
	c.status("SYMLINK", 10, &nfsv3.Symlink3args{Where: c.in(name), Symlink: link}, new(Call))
}

// Remove removes a file in the root.
func (c *Client3) Remove(name string) {
	c.T.Helper()
	c.status("REMOVE", 12, &nfsv3.Remove3args{Object: c.in(name)}, new(Call))
}

// Rmdir removes a directory in the root.
func (c *Client3) Rmdir(name string) {
	c.T.Helper()
	c.status("RMDIR", 13, &nfsv3.Rmdir3args{Object: c.in(name)}, new(Call))
}

// Rename renames within the root.
func (c *Client3) Rename(from, to string) {
	c.T.Helper()
	c.status("RENAME", 14, &nfsv3.Rename3args{From: c.in(from), To: c.in(to)}, new(Call))
}

// Link gives a file another name in the root.
func (c *Client3) Link(file []byte, name string) {
	c.T.Helper()
	c.status("LINK", 15, &nfsv3.Link3args{File: nfsv3.NfsFh3{Data: file}, Link: c.in(name)}, new(Call))
}

// Good reports whether a handle belongs to an existing object.
func (c *Client3) Good(handle []byte) bool {
	c.T.Helper()
	err := Files{c.Carrier}.Getattr(context.Background(), handle)
	if err != nil && !errors.As(err, new(StatusError)) {
		c.T.Error(err)
	}
	return err == nil
}

// WriteBytes writes data and returns the write verifier. With stable it asks for
// FILE_SYNC.
func (c *Client3) WriteBytes(file []byte, offset uint64, data []byte, stable bool) Verifier {
	c.T.Helper()
	how := uint32(Unstable)
	if stable {
		how = FileSync
	}
	v, err := Files{c.Carrier}.WriteVerifier(context.Background(), file, offset, data, how)
	if err != nil {
		c.T.Error(err)
	}
	return v
}

// Commit asks the server to put all data of a file on stable storage.
func (c *Client3) Commit(file []byte) Verifier {
	c.T.Helper()
	v, err := Files{c.Carrier}.CommitVerifier(context.Background(), file)
	if err != nil {
		c.T.Error(err)
	}
	return v
}
