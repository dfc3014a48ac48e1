package nfstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

const headRoom = 512 // what a reply may have beside data or entries, in bytes

// Client3 is a client of NFSv3 that uses the sizes of FSINFO to the byte.
type Client3 struct {
	T testing.TB
	Carrier
	Root []byte
}

// call makes a call and gives its results.
func (c *Client3) call(proc uint32, args io.WriterTo, call *Call) ([]byte, error) {
	call.Program, call.Version, call.Procedure = Program, Version3, proc
	call.Args = encode(args)
	for i := range call.Items { // a WRITE's data
		call.Items[i].Pos = len(call.Args) - xdr.Padded(call.Items[i].Len)
	}
	return c.Call(context.Background(), call)
}

// ask makes a call and returns its results, which read decodes, if its status is OK.
func ask[OK any, R interface{ GetStatus() nfsv3.Nfsstat3 }](c *Client3, proc uint32, args io.WriterTo, call *Call, read func(io.Reader) (R, int64, error)) (ok OK, err error) {
	results, err := c.call(proc, args, call)
	if err != nil {
		return ok, err
	}
	res, _, err := read(bytes.NewReader(results))
	if err != nil {
		return ok, err
	}
	ok, is := any(res).(OK)
	switch {
	case is:
		return ok, nil
	case res.GetStatus() == nfsv3.NFS3ERR_TOOSMALL:
		return ok, errTooSmall
	}
	return ok, fmt.Errorf("status %v", res.GetStatus())
}

// Mount mounts an export of a server that has MOUNT on the same connection.
func (c *Client3) Mount(path string) {
	c.T.Helper()
	var err error
	if c.Root, err = (Files{c.Carrier}).Mount(context.Background(), path); err != nil {
		c.T.Fatal(err)
	}
}

// Info is the result of FSINFO.
func (c *Client3) Info() nfsv3.Fsinfo3resok {
	c.T.Helper()
	ok, err := ask[*nfsv3.Fsinfo3res_NFS3_OK](c, 19, &nfsv3.Fsinfo3args{Fsroot: nfsv3.NfsFh3{Data: c.Root}}, &Call{MaxReply: headRoom}, nfsv3.ReadFsinfo3res)
	if err != nil {
		c.T.Fatalf("FSINFO: %v", err)
	}
	return ok.Resok
}

// Lookup finds a file in the root.
func (c *Client3) Lookup(name string) []byte {
	c.T.Helper()
	what := nfsv3.Diropargs3{Dir: nfsv3.NfsFh3{Data: c.Root}, Name: name}
	ok, err := ask[*nfsv3.Lookup3res_NFS3_OK](c, 3, &nfsv3.Lookup3args{What: what}, &Call{MaxReply: headRoom}, nfsv3.ReadLookup3res)
	if err != nil {
		c.T.Fatalf("LOOKUP: %v", err)
	}
	return ok.Resok.Object.Data
}

// Read reads n bytes and wants all of them or, with short, some
// (RFC 1813 §3.3.6).
func (c *Client3) Read(file []byte, offset uint64, n int, short bool) {
	c.T.Helper()
	args := &nfsv3.Read3args{File: nfsv3.NfsFh3{Data: file}, Offset: offset, Count: uint32(n)}
	ok, err := ask[*nfsv3.Read3res_NFS3_OK](c, 6, args, &Call{Reads: []int{n}, MaxReply: headRoom}, nfsv3.ReadRead3res)
	if err != nil {
		c.T.Errorf("READ of %d: %v", n, err)
		return
	}
	got := ok.Resok.Data
	if len(got) != int(ok.Resok.Count) || len(got) > n || len(got) < n && !short || len(got) < 1 || !bytes.Equal(got, Data(offset, len(got))) {
		c.T.Errorf("READ of %d: %d bytes, or wrong ones", n, len(got))
	}
}

// Write writes n bytes and wants all of them taken or, with short, some
// (RFC 1813 §3.3.7).
func (c *Client3) Write(file []byte, offset uint64, n int, short bool) {
	c.T.Helper()
	args := &nfsv3.Write3args{File: nfsv3.NfsFh3{Data: file}, Offset: offset, Count: uint32(n), Stable: nfsv3.UNSTABLE, Data: Data(offset, n)}
	ok, err := ask[*nfsv3.Write3res_NFS3_OK](c, 7, args, &Call{Items: []Item{{Len: n}}, MaxReply: headRoom}, nfsv3.ReadWrite3res)
	if err != nil {
		c.T.Errorf("WRITE of %d: %v", n, err)
		return
	}
	if taken := int(ok.Resok.Count); taken > n || taken < n && !short || taken < 1 {
		c.T.Errorf("WRITE of %d: %d taken", n, taken)
	}
}

// MaxData uses rtmax and wtmax: requests of exactly as many bytes, and of one more, which a
// server may serve in part.
func (c *Client3) MaxData(file []byte) {
	c.T.Helper()
	info := c.Info()
	read, write := int(info.Rtmax), int(info.Wtmax)
	c.Write(file, 0, write, false)
	c.Write(file, uint64(write), write, false)
	c.Write(file, 5, write+1, true)
	c.Read(file, 0, read, false)
	c.Read(file, 3, read, false)
	c.Read(file, 1, read+1, true)
	for _, n := range []uint32{info.Rtpref, info.Rtmult} {
		c.Read(file, 0, int(n), false)
	}
	for _, n := range []uint32{info.Wtpref, info.Wtmult} {
		c.Write(file, 0, int(n), false)
	}
}

// listing is what a READDIR or READDIRPLUS brought.
type listing struct {
	names []string
	size  int   // of the results that count or maxcount bounds
	at    []int // size with so many entries
	dirs  []int // bytes of the directory with so many entries, as dircount has it
}

var errTooSmall = errors.New("NFS3ERR_TOOSMALL")

// readdir lists the root from its beginning within count bytes.
func (c *Client3) readdir(count uint32) (l listing, err error) {
	args := &nfsv3.Readdir3args{Dir: nfsv3.NfsFh3{Data: c.Root}, Count: count}
	ok, err := ask[*nfsv3.Readdir3res_NFS3_OK](c, 16, args, &Call{MaxReply: int(count) + headRoom}, nfsv3.ReadReaddir3res)
	if err != nil {
		return l, err
	}
	l.begin(ok.Resok.GetEncodedSizeBytes())
	for e := ok.Resok.Reply.Entries; e != nil; e = e.Nextentry {
		l.add(e.Name, 0)
	}
	l.end()
	return l, nil
}

// readdirplus is readdir with attributes and handles.
func (c *Client3) readdirplus(dircount, maxcount uint32) (l listing, err error) {
	args := &nfsv3.Readdirplus3args{Dir: nfsv3.NfsFh3{Data: c.Root}, Dircount: dircount, Maxcount: maxcount}
	ok, err := ask[*nfsv3.Readdirplus3res_NFS3_OK](c, 17, args, &Call{MaxReply: int(maxcount) + headRoom}, nfsv3.ReadReaddirplus3res)
	if err != nil {
		return l, err
	}
	l.begin(ok.Resok.GetEncodedSizeBytes())
	for e := ok.Resok.Reply.Entries; e != nil; e = e.Nextentry {
		l.add(e.Name, e.NameAttributes.GetEncodedSizeBytes()+e.NameHandle.GetEncodedSizeBytes())
	}
	l.end()
	return l, nil
}

func (l *listing) begin(size int) { l.size, l.at, l.dirs = size, []int{0}, []int{0} }

// add counts an entry: the word that says that it is there, fileid, name,
// cookie, and what goes with it.
func (l *listing) add(name string, more int) {
	n := 4 + 8 + 4 + xdr.Padded(len(name)) + 8
	l.names = append(l.names, name)
	l.at = append(l.at, l.at[len(l.at)-1]+n+more)
	l.dirs = append(l.dirs, l.dirs[len(l.dirs)-1]+n)
}

// end makes at the sizes of whole results.
func (l *listing) end() {
	rest := l.size - l.at[len(l.at)-1]
	for i := range l.at {
		l.at[i] += rest
	}
}

// Listings limits READDIR and READDIRPLUS to exactly the size of some entries, and to one byte
// less (RFC 1813 §3.3.16, §3.3.17).
func (c *Client3) Listings() {
	c.T.Helper()
	most := c.Info().Dtpref
	all, err := c.readdir(most)
	if err != nil {
		c.T.Fatal(err)
	}
	plus, err := c.readdirplus(most, most)
	if err != nil || len(plus.names) != len(all.names) {
		c.T.Fatalf("%d of %d names, %v", len(plus.names), len(all.names), err)
	}
	check := func(what string, bound, entries int, got listing, err error) {
		c.T.Helper()
		if entries == 0 && errors.Is(err, errTooSmall) {
			return
		}
		if err != nil || len(got.names) != entries || entries == 0 {
			c.T.Errorf("%s %d: %d entries, want %d; %v", what, bound, len(got.names), entries, err)
		}
	}
	for n := 1; n <= len(all.names); n++ {
		for less := range 2 {
			got, err := c.readdir(uint32(all.at[n] - less))
			check("READDIR, count", all.at[n]-less, n-less, got, err)
			got, err = c.readdirplus(most, uint32(plus.at[n]-less))
			check("READDIRPLUS, maxcount", plus.at[n]-less, n-less, got, err)
			got, err = c.readdirplus(uint32(plus.dirs[n]-less), most)
			check("READDIRPLUS, dircount", plus.dirs[n]-less, n-less, got, err)
		}
	}
}
