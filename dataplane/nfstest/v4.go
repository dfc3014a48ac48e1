package nfstest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Client is a client of NFSv4 that uses the announced sizes of a server to the byte. With a
// Session, each COMPOUND begins with SEQUENCE.
type Client struct {
	T testing.TB
	Carrier
	Minor uint32
	// File has the operations that select the file to be read and written; if it is empty, that
	// is the root. Stateid is the stateid for reading and writing.
	File    []nfsv4.NfsArgop4
	Stateid nfsv4.Stateid4
	// LatePages expects the fault of Linux servers from 6.5 on: READ data that
	// should begin inside a page of the reply comes a page late, behind bytes of
	// other replies.
	LatePages bool
	// Fore and Back are the channels of the session, as its server granted them.
	Fore, Back nfsv4.ChannelAttrs4

	session [16]byte
	mu      sync.Mutex
	slots   []uint32 // sequence of each
	free    []uint32 // slots
}

const (
	linuxPage  = 4096
	readHeader = 16 // the header of a READ's result before its data, in bytes
)

// file are the operations that put the file in place.
func (c *Client) file() []nfsv4.NfsArgop4 {
	if len(c.File) == 0 {
		return []nfsv4.NfsArgop4{&nfsv4.NfsArgop4_OP_PUTROOTFH{}}
	}
	return c.File
}

func encode(w io.WriterTo) []byte {
	var b bytes.Buffer
	_, _ = w.WriteTo(&b) // a bytes.Buffer takes everything
	return b.Bytes()
}

// compound makes a COMPOUND of operations. The data of WRITEs may travel apart.
func (c *Client) compound(ops ...nfsv4.NfsArgop4) (*nfsv4.Compound4res, *Call, error) {
	call := &Call{Program: Program, Version: 4, Procedure: 1, MaxReply: 1024 + 16*len(ops)}
	call.Args = encode(&nfsv4.Compound4args{Minorversion: c.Minor, Argarray: ops})
	end := (&nfsv4.Compound4args{}).GetEncodedSizeBytes()
	for _, op := range ops {
		end += op.GetEncodedSizeBytes()
		switch op := op.(type) {
		case *nfsv4.NfsArgop4_OP_WRITE:
			n := len(op.Opwrite.Data)
			call.Items = append(call.Items, Item{Pos: end - xdr.Padded(n), Len: n})
		case *nfsv4.NfsArgop4_OP_READ:
			call.Reads = append(call.Reads, int(op.Opread.Count))
		}
	}
	results, err := c.Call(context.Background(), call)
	if err != nil {
		return nil, call, err
	}
	var res nfsv4.Compound4res
	n, err := res.ReadFrom(bytes.NewReader(results))
	if err == nil && int(n) != len(results) {
		err = fmt.Errorf("%d bytes behind the results", len(results)-int(n))
	}
	return &res, call, err
}

// must makes a COMPOUND, with SEQUENCE in a session, all of which must succeed.
// The results are those of ops.
func (c *Client) must(ops ...nfsv4.NfsArgop4) ([]nfsv4.NfsResop4, *Call) {
	c.T.Helper()
	before := 0
	if c.slots != nil {
		slot := c.takeSlot()
		defer c.giveSlot(slot.SaSlotid)
		ops = append([]nfsv4.NfsArgop4{&nfsv4.NfsArgop4_OP_SEQUENCE{Opsequence: slot}}, ops...)
		before = 1
	}
	res, call, err := c.compound(ops...)
	if err == nil && (res.Status != 0 || len(res.Resarray) != len(ops)) {
		err = fmt.Errorf("status %d after %d of %d operations", res.Status, len(res.Resarray), len(ops))
	}
	if err != nil {
		c.T.Errorf("COMPOUND of %d operations, %d bytes of arguments, READs of %v: %v", len(ops), len(call.Args), call.Reads, err)
		return nil, call
	}
	return res.Resarray[before:], call
}

func (c *Client) takeSlot() nfsv4.Sequence4args {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.slots[slot]++
	return nfsv4.Sequence4args{SaSessionid: c.session, SaSequenceid: c.slots[slot], SaSlotid: slot, SaHighestSlotid: uint32(len(c.slots) - 1)}
}

func (c *Client) giveSlot(slot uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, slot)
}

// boastful is a channel of which as many bytes are asked for, or granted, as there can be.
func boastful(operations, requests uint32) nfsv4.ChannelAttrs4 {
	return nfsv4.ChannelAttrs4{
		CaMaxrequestsize: Boast, CaMaxresponsesize: Boast, CaMaxresponsesizeCached: Boast, CaMaxoperations: operations, CaMaxrequests: requests,
	}
}

// Open makes a session of version 4.1 that asks for the largest sizes.
func (c *Client) Open(owner string) {
	c.T.Helper()
	c.Minor = 1
	res, _ := c.must(&nfsv4.NfsArgop4_OP_EXCHANGE_ID{OpexchangeId: nfsv4.ExchangeId4args{
		EiaClientowner: nfsv4.ClientOwner4{CoOwnerid: []byte(owner)}, EiaStateProtect: &nfsv4.StateProtect4A_SP4_NONE{},
	}})
	if res == nil {
		c.T.FailNow()
	}
	id := res[0].(*nfsv4.NfsResop4_OP_EXCHANGE_ID).OpexchangeId.(*nfsv4.ExchangeId4res_NFS4_OK).EirResok4
	most := boastful(1<<16, 64)
	res, _ = c.must(&nfsv4.NfsArgop4_OP_CREATE_SESSION{OpcreateSession: nfsv4.CreateSession4args{
		CsaClientid: id.EirClientid, CsaSequence: id.EirSequenceid, CsaFlags: nfsv4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
		CsaForeChanAttrs: most, CsaBackChanAttrs: most, CsaCbProgram: 0x40000000,
		CsaSecParms: []nfsv4.CallbackSecParms4{&nfsv4.CallbackSecParms4_AUTH_NONE{}},
	}})
	if res == nil {
		c.T.FailNow()
	}
	s := res[0].(*nfsv4.NfsResop4_OP_CREATE_SESSION).OpcreateSession.(*nfsv4.CreateSession4res_NFS4_OK).CsrResok4
	c.session, c.Fore, c.Back = s.CsrSessionid, s.CsrForeChanAttrs, s.CsrBackChanAttrs
	c.slots = make([]uint32, c.Fore.CaMaxrequests)
	for i := range c.slots {
		c.free = append(c.free, uint32(i))
	}
}

func (c *Client) read(offset uint64, n uint32) *nfsv4.NfsArgop4_OP_READ {
	return &nfsv4.NfsArgop4_OP_READ{Opread: nfsv4.Read4args{Stateid: c.Stateid, Offset: offset, Count: n}}
}

func (c *Client) write(offset uint64, n int) *nfsv4.NfsArgop4_OP_WRITE {
	return &nfsv4.NfsArgop4_OP_WRITE{Opwrite: nfsv4.Write4args{Stateid: c.Stateid, Offset: offset, Stable: nfsv4.UNSTABLE4, Data: Data(offset, n)}}
}

// Limits returns MAXREAD and MAXWRITE of the file.
func (c *Client) Limits() (read, write uint64) {
	c.T.Helper()
	res, _ := c.must(append(c.file(), &nfsv4.NfsArgop4_OP_GETATTR{Opgetattr: nfsv4.Getattr4args{AttrRequest: []uint32{3 << 30}}})...)
	if res == nil {
		c.T.FailNow()
	}
	return limitsIn(c.T, res[len(res)-1].(*nfsv4.NfsResop4_OP_GETATTR).Opgetattr.(*nfsv4.Getattr4res_NFS4_OK).Resok4.ObjAttributes)
}

func limitsIn(t testing.TB, f nfsv4.Fattr4) (read, write uint64) {
	t.Helper()
	d := xdr.NewDecoder(f.AttrVals)
	read, write = d.Uint64(), d.Uint64()
	if d.Err() != nil || d.Offset() != len(f.AttrVals) || f.Attrmask[0] != 3<<30 {
		t.Fatalf("attributes %+v", f)
	}
	return read, write
}

// Listed returns MAXREAD and MAXWRITE of the first entry of the root.
func (c *Client) Listed() (read, write uint64) {
	c.T.Helper()
	res, _ := c.must(&nfsv4.NfsArgop4_OP_PUTROOTFH{}, &nfsv4.NfsArgop4_OP_READDIR{
		Opreaddir: nfsv4.Readdir4args{Dircount: 512, Maxcount: 512, AttrRequest: []uint32{3 << 30}}})
	if res == nil {
		c.T.FailNow()
	}
	return limitsIn(c.T, res[1].(*nfsv4.NfsResop4_OP_READDIR).Opreaddir.(*nfsv4.Readdir4res_NFS4_OK).Resok4.Reply.Entries.Attrs)
}

// Read reads n bytes at each offset in one COMPOUND, and wants all of them or,
// with short, some.
func (c *Client) Read(short bool, reads ...*nfsv4.NfsArgop4_OP_READ) *Call {
	c.T.Helper()
	ops := append([]nfsv4.NfsArgop4(nil), c.file()...)
	at := len(ops)
	for _, r := range reads {
		ops = append(ops, r)
	}
	res, call := c.must(ops...)
	if res == nil {
		return call
	}
	begins := 0 // of the data in the pages of the reply; the first READ's data begins on a page of its own
	for i, r := range reads {
		got := res[at+i].(*nfsv4.NfsResop4_OP_READ).Opread.(*nfsv4.Read4res_NFS4_OK).Resok4.Data
		n := int(r.Opread.Count)
		if short {
			n = min(max(len(got), 1), n)
		}
		late := 0
		if c.LatePages && begins%linuxPage > 0 {
			late = min(linuxPage, n)
		}
		if len(got) != n || !bytes.Equal(got[late:], Data(r.Opread.Offset, n-late)) {
			c.T.Errorf("READ of %d at %d: %d bytes, or wrong ones", r.Opread.Count, r.Opread.Offset, len(got))
		}
		begins += xdr.Padded(n) + readHeader
	}
	return call
}

// Write writes in one COMPOUND, and wants all of it taken or, with short, some.
func (c *Client) Write(short bool, writes ...*nfsv4.NfsArgop4_OP_WRITE) {
	c.T.Helper()
	ops := append([]nfsv4.NfsArgop4(nil), c.file()...)
	at := len(ops)
	for _, w := range writes {
		ops = append(ops, w)
	}
	res, _ := c.must(ops...)
	for i, w := range writes {
		if res == nil {
			return
		}
		n := int(res[at+i].(*nfsv4.NfsResop4_OP_WRITE).Opwrite.(*nfsv4.Write4res_NFS4_OK).Resok4.Count)
		if n > len(w.Opwrite.Data) || n < len(w.Opwrite.Data) && !short || n < 1 {
			c.T.Errorf("WRITE of %d: %d taken", len(w.Opwrite.Data), n)
		}
	}
}

// MaxData uses MAXREAD and MAXWRITE: exactly as many bytes, and one more, for
// which less may come (RFC 8881 §5.8.2.20, §5.8.2.21, §18.22, §18.32).
func (c *Client) MaxData() {
	c.T.Helper()
	read, write := c.Limits()
	c.Write(false, c.write(0, int(write)))
	c.Write(true, c.write(3, int(write)+1))
	c.Read(false, c.read(0, uint32(read)))
	c.Read(true, c.read(1, uint32(read)+1))
}

// SmallFirst makes one COMPOUND with several READs, the first of them small. It returns how
// many bytes of each came in the write chunk that was offered for it.
func (c *Client) SmallFirst() []int {
	c.T.Helper()
	return c.Read(false, c.read(0, 100), c.read(3, 5000), c.read(1<<20, 20), c.read(9, 70001)).Apart
}

// WholePages makes one COMPOUND with several READs. In the reply of a Linux server
// the data of each begins on a page.
func (c *Client) WholePages() {
	c.T.Helper()
	c.Read(false, c.read(0, linuxPage-readHeader), c.read(3, 4*linuxPage-readHeader), c.read(1<<20, 16*linuxPage-readHeader), c.read(9, 70001))
}

// SeveralWrites makes COMPOUNDs with several WRITEs. In one, a large WRITE makes
// the call too large for a Send. In another, the first WRITE nearly fills a Send,
// and the data of the next begins in the first page of the request.
func (c *Client) SeveralWrites() {
	c.T.Helper()
	c.Write(false, c.write(0, 5000), c.write(1<<20, 3000), c.write(2<<20, 3000))
	c.Read(false, c.read(0, 5000))
	n := linuxPage - 100 - c.request(2)
	c.Write(false, c.write(0, n), c.write(1<<20, 200))
	c.Read(false, c.read(0, uint32(n)))
	c.Read(false, c.read(1<<20, 200))
}

// MaxSession uses the fore channel of the session: a request, a response and a
// number of operations of exactly what was granted, and all slots at once
// (RFC 8881 §18.36).
func (c *Client) MaxSession() {
	c.T.Helper()
	c.MaxRequest()
	c.MaxResponse()
	c.MaxOperations()
	c.AllSlots()
}

// MaxRequest makes requests of ca_maxrequestsize bytes.
func (c *Client) MaxRequest() {
	c.T.Helper()
	_, write := c.Limits()
	request := c.request(2)
	first := min(int(write), int(c.Fore.CaMaxrequestsize)-request)
	rest := int(c.Fore.CaMaxrequestsize) - request - first
	if rest > int(write) || rest%4 != 0 {
		c.T.Errorf("a request of %d bytes takes more than two WRITEs of %d", c.Fore.CaMaxrequestsize, write)
		return
	}
	c.Write(false, c.write(0, first), c.write(8, rest))
	c.Write(false, c.write(0, rest), c.write(8, first))
}

// MaxResponse wants responses of ca_maxresponsesize bytes.
func (c *Client) MaxResponse() {
	c.T.Helper()
	read, _ := c.Limits()
	response := replyHeader + 12 + 44 + 8*(len(c.bare())-1) + 2*readHeader
	first := min(int(read), int(c.Fore.CaMaxresponsesize)-response)
	rest := int(c.Fore.CaMaxresponsesize) - response - first
	if rest > int(read) {
		c.T.Errorf("a response of %d bytes takes more than two READs of %d", c.Fore.CaMaxresponsesize, read)
		return
	}
	c.Read(false, c.read(0, uint32(first)), c.read(8, uint32(rest)))
	c.Read(false, c.read(0, uint32(rest)), c.read(8, uint32(first)))
}

// MaxOperations makes a COMPOUND of ca_maxoperations.
func (c *Client) MaxOperations() {
	c.T.Helper()
	ops := make([]nfsv4.NfsArgop4, c.Fore.CaMaxoperations-1)
	for i := range ops {
		ops[i] = &nfsv4.NfsArgop4_OP_PUTROOTFH{}
	}
	c.must(ops...)
}

// AllSlots makes as many COMPOUNDs at once as there are slots.
func (c *Client) AllSlots() {
	c.T.Helper()
	var all sync.WaitGroup
	for range c.slots {
		all.Go(func() { c.Read(false, c.read(0, 5000)) })
	}
	all.Wait()
}

// request is the size of a call with n WRITEs, without their data, in bytes.
func (c *Client) request(n int) int {
	ops := c.bare()
	for range n {
		ops = append(ops, c.write(0, 0))
	}
	return callHeader + c.Cred() + (&nfsv4.Compound4args{Argarray: ops}).GetEncodedSizeBytes()
}

// bare are the operations that come before READ and WRITE.
func (c *Client) bare() []nfsv4.NfsArgop4 {
	return append([]nfsv4.NfsArgop4{&nfsv4.NfsArgop4_OP_SEQUENCE{}}, c.file()...)
}
