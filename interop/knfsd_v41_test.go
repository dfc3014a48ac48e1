package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// v4Reply is the most bytes that results take whose size does not depend on
// names or data (EXCHANGE_ID's, with the server's name in it).
const v4Reply = 800

// v41 is an NFSv4.1 session with one slot (RFC 8881 §2.10).
type v41 struct {
	*nfsClient
	t        *testing.T
	ctx      context.Context
	clientID uint64
	session  [16]byte
	sequence uint32
}

// v4Call is one COMPOUND. Sizes are in bytes.
type v4Call struct {
	ops      []nfsv4.NfsArgop4
	data     []byte // of the WRITE that is the last operation
	maxReply int
	room     int // for the data of the READ that is the last operation
}

// send sends a COMPOUND as it is.
func (v *v41) send(c v4Call) (*nfsv4.Compound4res, error) {
	if c.maxReply == 0 {
		c.maxReply = v4Reply
	}
	args := &nfsv4.Compound4args{Minorversion: 1, Argarray: c.ops}
	stream, err := v.do(v.ctx, nfsCall{version: 4, proc: 1, args: args, data: c.data, maxReply: c.maxReply, room: c.room})
	if err != nil {
		return nil, err
	}
	return decodeAll(stream, func(r io.Reader) (*nfsv4.Compound4res, int64, error) {
		var res nfsv4.Compound4res
		n, err := res.ReadFrom(r)
		return &res, n, err
	})
}

// answer sends a COMPOUND that must be answered, by success or error.
func (v *v41) answer(c v4Call) *nfsv4.Compound4res {
	v.t.Helper()
	res, err := v.send(c)
	if err != nil {
		v.t.Fatalf("%T: %v", c.ops[len(c.ops)-1], err)
	}
	return res
}

// must sends a COMPOUND in the session, which must succeed, and returns the
// results after SEQUENCE's.
func (v *v41) must(c v4Call) []nfsv4.NfsResop4 {
	v.t.Helper()
	c.ops = append([]nfsv4.NfsArgop4{v.next()}, c.ops...)
	res := v.answer(c)
	if res.Status != nfsv4.NFS4_OK || len(res.Resarray) != len(c.ops) {
		v.t.Fatalf("%T: %v after %d operations", c.ops[len(c.ops)-1], nfsv4.Nfsstat4_name[res.Status], len(res.Resarray))
	}
	return res.Resarray[1:]
}

// next is the SEQUENCE of a new request, whose answer the server need not keep.
func (v *v41) next() *nfsv4.NfsArgop4_OP_SEQUENCE {
	v.sequence++
	return &nfsv4.NfsArgop4_OP_SEQUENCE{Opsequence: nfsv4.Sequence4args{SaSessionid: v.session, SaSequenceid: v.sequence}}
}

// open41 makes a client ID and a session (RFC 8881 §18.35, §18.36) for a
// client that has nothing to reclaim.
func (s *kernelServer) open41(ctx context.Context, t *testing.T, c *nfsClient) *v41 {
	v := &v41{nfsClient: c, t: t, ctx: ctx}
	id := &nfsv4.NfsArgop4_OP_EXCHANGE_ID{OpexchangeId: nfsv4.ExchangeId4args{
		EiaClientowner:  nfsv4.ClientOwner4{CoVerifier: [8]byte{1}, CoOwnerid: []byte(t.Name())},
		EiaFlags:        nfsv4.EXCHGID4_FLAG_USE_NON_PNFS,
		EiaStateProtect: &nfsv4.StateProtect4A_SP4_NONE{},
	}}
	res := v.answer(v4Call{ops: []nfsv4.NfsArgop4{id}})
	known := as[*nfsv4.ExchangeId4res_NFS4_OK](t, as[*nfsv4.NfsResop4_OP_EXCHANGE_ID](t, res.Resarray[0]).OpexchangeId).EirResok4
	v.clientID = known.EirClientid
	channel := nfsv4.ChannelAttrs4{
		CaMaxrequestsize: 1<<20 + 4096, CaMaxresponsesize: 1<<20 + 4096, CaMaxresponsesizeCached: 2048,
		CaMaxoperations: 8, CaMaxrequests: 1,
	}
	create := &nfsv4.NfsArgop4_OP_CREATE_SESSION{OpcreateSession: nfsv4.CreateSession4args{
		CsaClientid: v.clientID, CsaSequence: known.EirSequenceid, CsaForeChanAttrs: channel, CsaBackChanAttrs: channel,
		CsaCbProgram: 0x40000000, CsaSecParms: []nfsv4.CallbackSecParms4{&nfsv4.CallbackSecParms4_AUTH_NONE{}},
	}}
	res = v.answer(v4Call{ops: []nfsv4.NfsArgop4{create}})
	made := as[*nfsv4.CreateSession4res_NFS4_OK](t, as[*nfsv4.NfsResop4_OP_CREATE_SESSION](t, res.Resarray[0]).OpcreateSession).CsrResok4
	if got := made.CsrForeChanAttrs; got.CaMaxrequestsize < channel.CaMaxrequestsize || got.CaMaxresponsesize < channel.CaMaxresponsesize {
		t.Fatalf("the session's limits are %+v, want %+v", got, channel)
	}
	v.session = made.CsrSessionid
	v.must(v4Call{ops: []nfsv4.NfsArgop4{&nfsv4.NfsArgop4_OP_RECLAIM_COMPLETE{}}})
	return v
}

// end destroys the session and the client ID, and checks that they are gone.
func (v *v41) end() {
	v.t.Helper()
	destroy := &nfsv4.NfsArgop4_OP_DESTROY_SESSION{OpdestroySession: nfsv4.DestroySession4args{DsaSessionid: v.session}}
	if res := v.answer(v4Call{ops: []nfsv4.NfsArgop4{destroy}}); res.Status != nfsv4.NFS4_OK {
		v.t.Errorf("DESTROY_SESSION: %v", nfsv4.Nfsstat4_name[res.Status])
	}
	if res := v.answer(v4Call{ops: []nfsv4.NfsArgop4{v.next()}}); res.Status != nfsv4.NFS4ERR_BADSESSION {
		v.t.Errorf("SEQUENCE in a destroyed session: %v", nfsv4.Nfsstat4_name[res.Status])
	}
	forget := &nfsv4.NfsArgop4_OP_DESTROY_CLIENTID{OpdestroyClientid: nfsv4.DestroyClientid4args{DcaClientid: v.clientID}}
	if res := v.answer(v4Call{ops: []nfsv4.NfsArgop4{forget}}); res.Status != nfsv4.NFS4_OK {
		v.t.Errorf("DESTROY_CLIENTID: %v", nfsv4.Nfsstat4_name[res.Status])
	}
}

// testV41 runs a session from EXCHANGE_ID to DESTROY_CLIENTID.
func testV41(t *testing.T, s *kernelServer, p rdmacm.Provider, set rpcrdma.Settings) {
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	v := s.open41(ctx, t, s.dial(ctx, t, p, s.address, set))
	v.rootAttributes()
	prefix := strings.ReplaceAll(t.Name(), "/", "-") + "-"
	for i, size := range dataSizes {
		v.data(fmt.Sprintf("%s%d", prefix, size), noise(size, uint64(1000+i)))
	}
	got := s.view(t, fmt.Sprintf("for s in %s; do cat %s$s; done | sha256sum", strings.Trim(fmt.Sprint(dataSizes), "[]"), prefix))
	var all []byte
	for i, size := range dataSizes {
		all = append(all, noise(size, uint64(1000+i))...)
	}
	same(t, "the server's files", got, sha(all)+"  -\n")
	v.list(prefix)
	v.layoutRefused(fmt.Sprintf("%s%d", prefix, 1<<20))
	v.remove(prefix + "3")
	v.end()
	checkCounters(t, v.nfsClient)
}

func putRoot() nfsv4.NfsArgop4 { return &nfsv4.NfsArgop4_OP_PUTROOTFH{} }

func putFH(fh []byte) nfsv4.NfsArgop4 {
	return &nfsv4.NfsArgop4_OP_PUTFH{Opputfh: nfsv4.Putfh4args{Object: fh}}
}

// getattr asks for attributes of the first 32.
func getattr(bits ...int) nfsv4.NfsArgop4 {
	return &nfsv4.NfsArgop4_OP_GETATTR{Opgetattr: nfsv4.Getattr4args{AttrRequest: bitmap(bits...)}}
}

func bitmap(bits ...int) []uint32 {
	var word uint32
	for _, b := range bits {
		word |= 1 << b
	}
	return []uint32{word}
}

// rootAttributes is SEQUENCE, PUTROOTFH, GETFH, GETATTR.
func (v *v41) rootAttributes() {
	res := v.must(v4Call{ops: []nfsv4.NfsArgop4{putRoot(), &nfsv4.NfsArgop4_OP_GETFH{}, getattr(nfsv4.FATTR4_TYPE, nfsv4.FATTR4_LEASE_TIME)}})
	attrs := as[*nfsv4.Getattr4res_NFS4_OK](v.t, as[*nfsv4.NfsResop4_OP_GETATTR](v.t, res[2]).Opgetattr).Resok4.ObjAttributes
	if len(attrs.AttrVals) != 8 || binary.BigEndian.Uint32(attrs.AttrVals) != uint32(nfsv4.NF4DIR) || binary.BigEndian.Uint32(attrs.AttrVals[4:]) == 0 {
		v.t.Errorf("the root's type and lease time are %x, want a directory's", attrs.AttrVals)
	}
}

// openFile is a file and the right to read and write it.
type openFile struct {
	fh    []byte
	state nfsv4.Stateid4
}

// open opens a file of the root for reading and writing, and makes it if need
// be.
func (v *v41) open(name string) openFile {
	v.t.Helper()
	op := &nfsv4.NfsArgop4_OP_OPEN{Opopen: nfsv4.Open4args{
		ShareAccess: nfsv4.OPEN4_SHARE_ACCESS_BOTH | nfsv4.OPEN4_SHARE_ACCESS_WANT_NO_DELEG,
		Owner:       nfsv4.StateOwner4{Clientid: v.clientID, Owner: []byte("owner")},
		Openhow:     &nfsv4.Openflag4_OPEN4_CREATE{How: &nfsv4.Createhow4_UNCHECKED4{}},
		Claim:       &nfsv4.OpenClaim4_CLAIM_NULL{File: name},
	}}
	res := v.must(v4Call{ops: []nfsv4.NfsArgop4{putRoot(), op, &nfsv4.NfsArgop4_OP_GETFH{}}})
	opened := as[*nfsv4.Open4res_NFS4_OK](v.t, as[*nfsv4.NfsResop4_OP_OPEN](v.t, res[1]).Opopen).Resok4
	fh := as[*nfsv4.Getfh4res_NFS4_OK](v.t, as[*nfsv4.NfsResop4_OP_GETFH](v.t, res[2]).Opgetfh).Resok4.Object
	return openFile{fh, opened.Stateid}
}

func (v *v41) close(f openFile) {
	v.t.Helper()
	v.must(v4Call{ops: []nfsv4.NfsArgop4{putFH(f.fh), &nfsv4.NfsArgop4_OP_CLOSE{Opclose: nfsv4.Close4args{OpenStateid: f.state}}}})
}

// write is PUTFH, WRITE.
func (f openFile) write(data []byte) v4Call {
	args := nfsv4.Write4args{Stateid: f.state, Stable: nfsv4.FILE_SYNC4}
	return v4Call{ops: []nfsv4.NfsArgop4{putFH(f.fh), &nfsv4.NfsArgop4_OP_WRITE{Opwrite: args}}, data: data}
}

// read is PUTFH, READ of all bytes up to room.
func (f openFile) read(count int) v4Call {
	args := nfsv4.Read4args{Stateid: f.state, Count: uint32(count)}
	return v4Call{ops: []nfsv4.NfsArgop4{putFH(f.fh), &nfsv4.NfsArgop4_OP_READ{Opread: args}}, room: max(count, 1)}
}

// wrote checks the result of a WRITE.
func wrote(t *testing.T, res nfsv4.NfsResop4, n int) {
	t.Helper()
	w := as[*nfsv4.Write4res_NFS4_OK](t, as[*nfsv4.NfsResop4_OP_WRITE](t, res).Opwrite).Resok4
	if int(w.Count) != n || w.Committed != nfsv4.FILE_SYNC4 {
		t.Errorf("of %d bytes %d were written, committed %d", n, w.Count, w.Committed)
	}
}

// data opens a file, writes it with one call, reads it with one, small ones
// with room to spare, too, and closes it.
func (v *v41) data(name string, data []byte) {
	v.t.Helper()
	f := v.open(name)
	wrote(v.t, v.must(f.write(data))[1], len(data))
	counts := []int{len(data)}
	if len(data) <= 65536 {
		counts = append(counts, len(data)+4096)
	}
	for _, count := range counts {
		res := v.must(f.read(count))
		got := as[*nfsv4.Read4res_NFS4_OK](v.t, as[*nfsv4.NfsResop4_OP_READ](v.t, res[1]).Opread).Resok4
		if !bytes.Equal(got.Data, data) || !got.Eof {
			v.t.Errorf("written and read back with count %d: %s, end %v", count, firstDifference(data, got.Data), got.Eof)
		}
	}
	v.close(f)
}

// list lists the root with replies larger than any Send.
func (v *v41) list(prefix string) {
	sizes := map[string]uint64{}
	args := nfsv4.Readdir4args{Dircount: 8192, Maxcount: 16384, AttrRequest: bitmap(nfsv4.FATTR4_TYPE, nfsv4.FATTR4_SIZE)}
	for end := false; !end; {
		op := &nfsv4.NfsArgop4_OP_READDIR{Opreaddir: args}
		res := v.must(v4Call{ops: []nfsv4.NfsArgop4{putRoot(), op}, maxReply: v4Reply + 16384})
		ok := as[*nfsv4.Readdir4res_NFS4_OK](v.t, as[*nfsv4.NfsResop4_OP_READDIR](v.t, res[1]).Opreaddir).Resok4
		for e := ok.Reply.Entries; e != nil; e = e.Nextentry {
			args.Cookie = e.Cookie
			if strings.HasPrefix(e.Name, prefix) && len(e.Attrs.AttrVals) == 12 {
				sizes[e.Name] = binary.BigEndian.Uint64(e.Attrs.AttrVals[4:])
			}
		}
		args.Cookieverf, end = ok.Cookieverf, ok.Reply.Eof
	}
	for _, size := range dataSizes {
		if got, ok := sizes[fmt.Sprintf("%s%d", prefix, size)]; !ok || got != uint64(size) {
			v.t.Errorf("the file of %d bytes is listed: %v, with %d bytes", size, ok, got)
		}
	}
	if len(sizes) != len(dataSizes) {
		v.t.Errorf("%d files are listed, want %d", len(sizes), len(dataSizes))
	}
}

// layoutRefused asks for layouts of each kind, which a server without pNFS
// has not.
func (v *v41) layoutRefused(name string) {
	f := v.open(name)
	refusals := []nfsv4.Nfsstat4{nfsv4.NFS4ERR_LAYOUTUNAVAILABLE, nfsv4.NFS4ERR_UNKNOWN_LAYOUTTYPE, nfsv4.NFS4ERR_NOTSUPP}
	for _, kind := range []nfsv4.Layouttype4{nfsv4.LAYOUT4_NFSV4_1_FILES, nfsv4.LAYOUT4_OSD2_OBJECTS, nfsv4.LAYOUT4_BLOCK_VOLUME} {
		op := &nfsv4.NfsArgop4_OP_LAYOUTGET{Oplayoutget: nfsv4.Layoutget4args{
			LogaLayoutType: kind, LogaIomode: nfsv4.LAYOUTIOMODE4_READ, LogaLength: 1<<64 - 1, LogaMinlength: 4096,
			LogaStateid: f.state, LogaMaxcount: 4096,
		}}
		res := v.answer(v4Call{ops: []nfsv4.NfsArgop4{v.next(), putFH(f.fh), op}})
		v.t.Logf("LAYOUTGET of type %d: %v", kind, nfsv4.Nfsstat4_name[res.Status])
		if !slices.Contains(refusals, res.Status) || len(res.Resarray) != 3 {
			v.t.Errorf("LAYOUTGET of type %d: %v after %d operations, want a refusal", kind, nfsv4.Nfsstat4_name[res.Status], len(res.Resarray))
		}
	}
	v.close(f)
}

// remove removes a file and checks that it is gone.
func (v *v41) remove(name string) {
	op := &nfsv4.NfsArgop4_OP_REMOVE{Opremove: nfsv4.Remove4args{Target: name}}
	v.must(v4Call{ops: []nfsv4.NfsArgop4{putRoot(), op}})
	if res := v.answer(v4Call{ops: []nfsv4.NfsArgop4{v.next(), putRoot(), op}}); res.Status != nfsv4.NFS4ERR_NOENT {
		v.t.Errorf("removing a file that is gone: %v", nfsv4.Nfsstat4_name[res.Status])
	}
}
