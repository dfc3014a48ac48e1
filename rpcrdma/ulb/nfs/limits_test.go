package nfs

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// limits are of sizes that none of the drawn words has by accident.
var limits = ulb.Limits{Data: 0x10001, Message: 0x11002, Operations: 1003, Back: func() (call, reply uint32) { return backCall, backReply }}

const backCall, backReply = 4004, 4005

func atMost(limit uint32, numbers ...*uint32) {
	for _, n := range numbers {
		*n = min(*n, limit)
	}
}

func holdChannels(fore, back *nfsv4.ChannelAttrs4) {
	atMost(limits.Message, &fore.CaMaxrequestsize, &fore.CaMaxresponsesize, &fore.CaMaxresponsesizeCached)
	atMost(limits.Operations, &fore.CaMaxoperations)
	atMost(backCall, &back.CaMaxrequestsize)
	atMost(backReply, &back.CaMaxresponsesize, &back.CaMaxresponsesizeCached)
}

// holdAttrs finds MAXREAD and MAXWRITE by decoding what stands before them.
func holdAttrs(f *nfsv4.Fattr4) {
	if len(f.Attrmask) == 0 || len(f.AttrVals)%xdr.Unit != 0 {
		return
	}
	d := xdr.NewDecoder(f.AttrVals)
	strings := func() {
		for range d.Length(len(f.AttrVals) / 4) {
			d.Opaque(len(f.AttrVals))
		}
	}
	for bit := range 32 {
		if f.Attrmask[0]>>bit&1 == 0 {
			continue
		}
		switch bit {
		case 0:
			d.Fixed(4 * d.Length(len(f.AttrVals)/4))
		case 3, 4, 20, 21, 22, 23, 27:
			d.Uint64()
		case 8:
			d.Fixed(16)
		case 12:
			for range d.Length(len(f.AttrVals) / 16) {
				d.Fixed(12)
				d.Opaque(len(f.AttrVals))
			}
		case 19:
			d.Opaque(128)
		case 24:
			strings()
			for range d.Length(len(f.AttrVals) / 8) {
				strings()
				strings()
			}
		case 30, 31:
			if v := d.Uint64(); d.Err() == nil && v > uint64(limits.Data) {
				binary.BigEndian.PutUint64(f.AttrVals[d.Offset()-8:], uint64(limits.Data))
			}
		default:
			d.Uint32()
		}
		if d.Err() != nil {
			return
		}
	}
}

// holdResults does with a decoded reply what a plan does with its bytes.
func holdResults(ops []nfsv4.NfsResop4) {
	for _, o := range ops {
		switch o := o.(type) {
		case *nfsv4.NfsResop4_OP_GETATTR:
			if ok, is := o.Opgetattr.(*nfsv4.Getattr4res_NFS4_OK); is {
				holdAttrs(&ok.Resok4.ObjAttributes)
			}
		case *nfsv4.NfsResop4_OP_READDIR:
			if ok, is := o.Opreaddir.(*nfsv4.Readdir4res_NFS4_OK); is {
				for e := ok.Resok4.Reply.Entries; e != nil; e = e.Nextentry {
					holdAttrs(&e.Attrs)
				}
			}
		case *nfsv4.NfsResop4_OP_CREATE_SESSION:
			if ok, is := o.OpcreateSession.(*nfsv4.CreateSession4res_NFS4_OK); is {
				holdChannels(&ok.CsrResok4.CsrForeChanAttrs, &ok.CsrResok4.CsrBackChanAttrs)
			}
		}
	}
}

func holdArguments(ops []nfsv4.NfsArgop4) {
	for _, o := range ops {
		switch o := o.(type) {
		case *nfsv4.NfsArgop4_OP_READ:
			atMost(limits.Data, &o.Opread.Count)
		case *nfsv4.NfsArgop4_OP_READDIR:
			atMost(limits.Data, &o.Opreaddir.Maxcount)
		case *nfsv4.NfsArgop4_OP_READ_PLUS:
			atMost(limits.Data, &o.OpreadPlus.RpaCount)
		case *nfsv4.NfsArgop4_OP_GETDEVICEINFO:
			atMost(limits.Data, &o.Opgetdeviceinfo.GdiaMaxcount)
		case *nfsv4.NfsArgop4_OP_LAYOUTGET:
			atMost(limits.Data, &o.Oplayoutget.LogaMaxcount)
		case *nfsv4.NfsArgop4_OP_CREATE_SESSION:
			holdChannels(&o.OpcreateSession.CsaForeChanAttrs, &o.OpcreateSession.CsaBackChanAttrs)
		}
	}
}

func encoded(w io.WriterTo) []byte {
	var b bytes.Buffer
	_, _ = w.WriteTo(&b) // a bytes.Buffer takes everything
	return b.Bytes()
}

// heldCall and heldReply are bodies of COMPOUND after a plan has held them to
// limits.
func heldCall(t *testing.T, body []byte) []byte {
	t.Helper()
	body = bytes.Clone(body)
	p := ulb.Plan{Limits: &limits}
	_ = p.Call(registry, v4call(body)) // what is wrong ends the walk
	return body
}

func heldReply(t *testing.T, call *oncrpc.Call, body []byte, piece int) []byte {
	t.Helper()
	p := ulb.Plan{Limits: &limits}
	if err := p.Call(registry, call); err != nil {
		t.Fatal(err)
	}
	if piece == 0 {
		body = bytes.Clone(body)
		p.LowerReply(body, nil)
		return body
	}
	p.StartReply(-1)
	var out []byte
	for len(out) < len(body) {
		n, step, err := p.Walk(body[len(out):min(len(out)+piece, len(body))])
		out = append(out, body[len(out):len(out)+n]...)
		switch {
		case err != nil || step == ulb.End:
			return append(out, body[len(out):]...)
		case step == ulb.OverLimit:
			p.Lower(out)
		}
	}
	return out
}

const huge = 64 << 20

// hugeAttrs are all attributes up to MAXWRITE with a MODE behind them, or those
// in mask.
func hugeAttrs(mask uint32) nfsv4.Fattr4 {
	path := join(words(2), str("a"), str("bcdef"))
	values := [32][]byte{
		0: words(2, 1<<30, 1<<31), 3: words(0, 1), 4: words(huge, huge), 8: words(1, 2, 3, 4),
		12: join(words(2, 0, 0, 7), str("who"), words(1, 0, 7), str("OWNER@")), 19: str("a handle of 25 bytes long"),
		20: words(9, 9), 21: words(huge, 0), 22: words(huge, 1), 23: words(huge, 2),
		24: join(path, words(1, 2), str("server"), str("10.0.0.1"), path), 27: words(huge, huge),
		30: words(0, huge), 31: words(1, 5),
	}
	f := nfsv4.Fattr4{Attrmask: []uint32{mask, 1 << 1}}
	for i, v := range values {
		switch {
		case mask>>i&1 == 0:
		case v == nil:
			f.AttrVals = append(f.AttrVals, words(huge)...)
		default:
			f.AttrVals = append(f.AttrVals, v...)
		}
	}
	f.AttrVals = append(f.AttrVals, words(0o644)...)
	return f
}

func hugeChannel() nfsv4.ChannelAttrs4 {
	return nfsv4.ChannelAttrs4{
		CaHeaderpadsize: huge, CaMaxrequestsize: huge, CaMaxresponsesize: huge + 1, CaMaxresponsesizeCached: huge + 2,
		CaMaxoperations: 1 << 20, CaMaxrequests: 1 << 16, CaRdmaIrd: []uint32{huge},
	}
}

func hugeResults() *nfsv4.Compound4res {
	session := nfsv4.CreateSession4resok{CsrForeChanAttrs: hugeChannel(), CsrBackChanAttrs: hugeChannel()}
	entries := &nfsv4.Entry4{Name: "x", Attrs: hugeAttrs(1 << 30), Nextentry: &nfsv4.Entry4{Name: "yy", Attrs: hugeAttrs(1 << 31)}}
	attrs := func(mask uint32) nfsv4.NfsResop4 {
		return &nfsv4.NfsResop4_OP_GETATTR{Opgetattr: &nfsv4.Getattr4res_NFS4_OK{Resok4: nfsv4.Getattr4resok{ObjAttributes: hugeAttrs(mask)}}}
	}
	return &nfsv4.Compound4res{Tag: "tag", Resarray: []nfsv4.NfsResop4{
		&nfsv4.NfsResop4_OP_CREATE_SESSION{OpcreateSession: &nfsv4.CreateSession4res_NFS4_OK{CsrResok4: session}},
		attrs(1<<32 - 1), attrs(3 << 30), attrs(1 << 27),
		&nfsv4.NfsResop4_OP_READ{Opread: &nfsv4.Read4res_NFS4_OK{Resok4: nfsv4.Read4resok{Data: []byte("some data")}}},
		&nfsv4.NfsResop4_OP_READDIR{Opreaddir: &nfsv4.Readdir4res_NFS4_OK{Resok4: nfsv4.Readdir4resok{Reply: nfsv4.Dirlist4{Entries: entries}}}},
		attrs(1 << 31),
	}}
}

// TestLimitsInReplies: what a server tells of itself is held to the limits, and
// nothing else of its reply changes, whole or in pieces.
func TestLimitsInReplies(t *testing.T) {
	res := hugeResults()
	body := encoded(res)
	ask := asksFor(res.Resarray)
	holdResults(res.Resarray)
	want := encoded(res)
	if bytes.Equal(body, want) {
		t.Fatal("nothing is over a limit")
	}
	for _, piece := range []int{0, 1, 3, 4, 7, 64, 1 << 20} {
		if got := heldReply(t, ask, body, piece); !bytes.Equal(got, want) {
			t.Errorf("pieces of %d:\n got % x\nwant % x", piece, got, want)
		}
	}
	if got := heldReply(t, ask, want, 0); !bytes.Equal(got, want) {
		t.Error("what is at the limits was changed")
	}
}

// TestLimitsBehindAnItemApart: results that came by RDMA Write are passed over.
func TestLimitsBehindAnItemApart(t *testing.T) {
	before := join(words(0), str(""), words(2, 25, 0, 1, 1000))
	tail := func(n uint32) []byte { return words(9, 0, 1, 1<<30, 8, 0, n) }
	p := ulb.Plan{Limits: &limits}
	if err := p.Call(registry, asksFor(nil)); err != nil {
		t.Fatal(err)
	}
	got := join(before, tail(huge))
	p.LowerReply(got, []int{1000})
	if want := join(before, tail(limits.Data)); !bytes.Equal(got, want) {
		t.Errorf(" got % x\nwant % x", got, want)
	}
}

func hugeArguments() *nfsv4.Compound4args {
	return &nfsv4.Compound4args{Tag: "tag", Minorversion: 2, Argarray: []nfsv4.NfsArgop4{
		&nfsv4.NfsArgop4_OP_CREATE_SESSION{OpcreateSession: nfsv4.CreateSession4args{CsaForeChanAttrs: hugeChannel(), CsaBackChanAttrs: hugeChannel()}},
		&nfsv4.NfsArgop4_OP_READ{Opread: nfsv4.Read4args{Count: huge}},
		&nfsv4.NfsArgop4_OP_READ{Opread: nfsv4.Read4args{Count: limits.Data}},
		&nfsv4.NfsArgop4_OP_READDIR{Opreaddir: nfsv4.Readdir4args{Dircount: huge, Maxcount: huge, AttrRequest: []uint32{1 << 30}}},
		&nfsv4.NfsArgop4_OP_READ_PLUS{OpreadPlus: nfsv4.ReadPlus4args{RpaCount: huge}},
		&nfsv4.NfsArgop4_OP_GETDEVICEINFO{Opgetdeviceinfo: nfsv4.Getdeviceinfo4args{GdiaMaxcount: huge}},
		&nfsv4.NfsArgop4_OP_LAYOUTGET{Oplayoutget: nfsv4.Layoutget4args{LogaMaxcount: huge}},
		&nfsv4.NfsArgop4_OP_VERIFY{Opverify: nfsv4.Verify4args{ObjAttributes: hugeAttrs(3 << 30)}},
	}}
}

// TestLimitsInCalls: a client is not to ask for more than can be carried, nor
// to offer it.
func TestLimitsInCalls(t *testing.T) {
	args := hugeArguments()
	body := encoded(args)
	holdArguments(args.Argarray)
	if got, want := heldCall(t, body), encoded(args); !bytes.Equal(got, want) || bytes.Equal(got, body) {
		t.Errorf(" got % x\nwant % x", got, want)
	}
	p := ulb.Plan{Limits: &limits}
	if err := p.Call(registry, v4call(bytes.Clone(body))); err != nil || p.Results[0].Max != int(limits.Data) || p.MaxReply > 4*int(limits.Data)+(1<<18) {
		t.Errorf("%v, the plan is for %+v and %d", err, p.Results, p.MaxReply)
	}
}

// TestLimits3: those of FSINFO, and what READ and the listings ask for.
func TestLimits3(t *testing.T) {
	info := &nfsv3.Fsinfo3res_NFS3_OK{Resok: nfsv3.Fsinfo3resok{
		ObjAttributes: &nfsv3.PostOpAttr_TRUE{},
		Rtmax:         huge, Rtpref: huge, Rtmult: huge, Wtmax: huge, Wtpref: huge, Wtmult: huge, Dtpref: huge, Maxfilesize: 1 << 60, Properties: huge,
	}}
	body := encoded(info)
	atMost(limits.Data, &info.Resok.Rtmax, &info.Resok.Rtpref, &info.Resok.Wtmax, &info.Resok.Wtpref, &info.Resok.Dtpref)
	want := encoded(info)
	for _, piece := range []int{0, 1, 5} {
		if got := heldReply(t, call3(19, str("handle")), body, piece); !bytes.Equal(got, want) {
			t.Errorf("pieces of %d: got % x, want % x", piece, got, want)
		}
	}
	for proc, c := range map[int]struct{ args, want []byte }{
		6:  {join(str("handle"), words(0, 0, huge)), join(str("handle"), words(0, 0, limits.Data))},
		16: {join(str("handle"), words(0, 0, 0, 0, huge)), join(str("handle"), words(0, 0, 0, 0, limits.Data))},
		17: {join(str("handle"), words(0, 0, 0, 0, huge, huge)), join(str("handle"), words(0, 0, 0, 0, huge, limits.Data))},
	} {
		p := ulb.Plan{Limits: &limits}
		if err := p.Call(registry, call3(proc, c.args)); err != nil || !bytes.Equal(c.args, c.want) {
			t.Errorf("procedure %d: %v, got % x, want % x", proc, err, c.args, c.want)
		}
	}
}

// TestTold: only calls whose replies may tell limits have theirs looked at.
func TestTold(t *testing.T) {
	attrs := func(mask uint32) *oncrpc.Call { return v4call(join(str(""), words(0, 1, 9, 1, mask))) }
	hidden := attrs(1 << 30)
	hidden.Cred = oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: join(words(1, 0, 7, 2), str("handle"))}
	for name, c := range map[string]struct {
		call *oncrpc.Call
		want bool
	}{
		"GETATTR of a size":      {attrs(1 << 4), false},
		"of MAXREAD":             {attrs(1 << 30), true},
		"of MAXWRITE":            {attrs(1 << 31), true},
		"READDIR":                {v4call(join(str(""), words(0, 1, 26, 0, 0, 0, 0, 0, 512, 1, 1<<4))), false},
		"READDIR with MAXREAD":   {v4call(join(str(""), words(0, 1, 26, 0, 0, 0, 0, 0, 512, 1, 1<<30))), true},
		"CREATE_SESSION":         {v4call(encoded(hugeArguments())), true},
		"FSINFO":                 {call3(19, str("handle")), true},
		"FSSTAT":                 {call3(18, str("handle")), false},
		"protected by integrity": {hidden, false},
	} {
		var p ulb.Plan
		if _ = p.Call(registry, c.call); p.Told() != c.want {
			t.Errorf("%s: %v", name, p.Told())
		}
	}
}

// TestLimitsProtected: a body under integrity is never changed, nor its reply.
func TestLimitsProtected(t *testing.T) {
	args := join(words(100, 7), encoded(hugeArguments()), str("checksum"))
	c := v4call(bytes.Clone(args))
	c.Cred = oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: join(words(1, 0, 7, 2), str("handle"))}
	p := ulb.Plan{Limits: &limits}
	if err := p.Call(registry, c); err != nil || !bytes.Equal(c.Args.Stream, args) {
		t.Errorf("%v, got % x", err, c.Args.Stream)
	}
	body := encoded(hugeResults())
	got := bytes.Clone(body)
	if p.LowerReply(got, nil); !bytes.Equal(got, body) {
		t.Error("the reply was changed")
	}
}

// onlyLowered says whether got is body but for words that were over a limit and
// are now at it.
func onlyLowered(body, got []byte) bool {
	if len(body) != len(got) || !bytes.Equal(body[len(body)&^3:], got[len(body)&^3:]) {
		return false
	}
	for at := 0; at+4 <= len(body); at += 4 {
		old, now := binary.BigEndian.Uint32(body[at:]), binary.BigEndian.Uint32(got[at:])
		switch {
		case old == now:
		case now == 0: // the upper half of 64 bits
			if at+8 > len(got) || binary.BigEndian.Uint32(got[at+4:]) != limits.Data {
				return false
			}
		case now == limits.Data:
			if old < now && (at == 0 || binary.BigEndian.Uint32(body[at-4:]) == 0) {
				return false
			}
		case now != limits.Message && now != limits.Operations && now != backCall && now != backReply || old < now:
			return false
		}
	}
	return true
}

// FuzzLimits: whatever the bytes, only limits change; and where go-xdr decodes
// the body, exactly those that it finds.
func FuzzLimits(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	f.Add(true, uint8(0), encoded(hugeResults()))
	f.Add(false, uint8(0), encoded(hugeArguments()))
	for range 8 {
		f.Add(true, uint8(1), replySide.compound(r, 1+r.IntN(4)))
		f.Add(true, uint8(3), append(replySide.head("", 1), replySide.op(r, 26)...))
		f.Add(false, uint8(0), append(callSide.head("", 1), callSide.op(r, 43)...))
	}
	f.Fuzz(func(t *testing.T, reply bool, piece uint8, body []byte) {
		checkLimits(t, reply, int(piece), body)
	})
}

func checkLimits(t *testing.T, reply bool, piece int, body []byte) {
	t.Helper()
	var got []byte
	var want io.WriterTo
	if reply {
		var res nfsv4.Compound4res
		n, err := res.ReadFrom(bytes.NewReader(body))
		if got = heldReply(t, asksFor(res.Resarray), body, piece); err == nil && len(res.Resarray) <= MaxOperations {
			holdResults(res.Resarray)
			want, body, got = &res, body[:n], got[:n]
		}
	} else {
		var args nfsv4.Compound4args
		n, err := args.ReadFrom(bytes.NewReader(body))
		if got = heldCall(t, body); err == nil && len(args.Argarray) <= MaxOperations {
			holdArguments(args.Argarray)
			want, body, got = &args, body[:n], got[:n]
		}
	}
	if want != nil && !bytes.Equal(got, encoded(want)) {
		t.Fatalf(" got % x\nwant % x", got, encoded(want))
	}
	if !onlyLowered(body, got) {
		t.Fatalf("from % x\n  to % x", body, got)
	}
}

// TestLimitsDrawn has bodies of the operations with limits drawn, and changed.
func TestLimitsDrawn(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	replies, calls := encoded(hugeResults()), encoded(hugeArguments())
	for i := range 2000 {
		checkLimits(t, true, i%9, mutated(r, replies))
		checkLimits(t, false, 0, mutated(r, calls))
	}
	for _, number := range []uint32{9, 26, 43} {
		for i := range 100 {
			checkLimits(t, true, i%9, append(replySide.head("", 1), replySide.op(r, number)...))
			checkLimits(t, false, 0, append(callSide.head("", 1), callSide.op(r, number)...))
		}
	}
}
