package nfstest

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Boast is the size that a Server announces for everything.
const Boast = 64 << 20

// Server is an NFS server of versions 3, 4.0 and 4.1 whose root is one endless file: READ
// returns the bytes of Fill, and WRITE of other bytes is refused. It announces Boast for every
// size, whatever a client asks for.
type Server struct {
	mu       sync.Mutex
	sessions []nfsv4.CreateSession4args
	largest  int
}

// Sessions are the CREATE_SESSIONs so far, as they arrived.
func (s *Server) Sessions() []nfsv4.CreateSession4args {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

// LargestRead is the largest size that a READ has asked for.
func (s *Server) LargestRead() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.largest
}

// ServeRPC implements oncrpc.Handler.
func (s *Server) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	out := &results{ctx: ctx, reply: reply}
	switch args := bytes.NewReader(whole(&call.Args)); {
	case call.Program != Program:
		return &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	case call.Procedure == 0:
		return nil
	case call.Version == 3:
		return s.serve3(call.Procedure, args, out)
	case call.Version == 4:
		return s.compound(args, out)
	}
	return &oncrpc.AcceptError{Stat: oncrpc.ProgMismatch, Low: 3, High: 4}
}

// whole is a payload with its items in their places. That they are opaques of
// the arguments shows when these are decoded.
func whole(p *oncrpc.Payload) (b []byte) {
	p.Claim()
	at := 0
	for i := range p.Items {
		it := &p.Items[i]
		b = append(b, p.Stream[at:it.Pos]...)
		data := append([]byte(nil), it.Data...)
		for _, more := range it.More {
			data = append(data, more...)
		}
		b = xdr.AppendFixed(b, data)
		at = it.Pos
	}
	return append(b, p.Stream[at:]...)
}

// results are those of a call being made.
type results struct {
	ctx   context.Context
	reply *oncrpc.Reply
}

// Write implements io.Writer.
func (r *results) Write(p []byte) (int, error) {
	r.reply.Stream = append(r.reply.Stream, p...)
	return len(p), nil
}

func (r *results) words(words ...uint32) {
	for _, w := range words {
		r.reply.Stream = xdr.AppendUint32(r.reply.Stream, w)
	}
}

// file writes n bytes of the file as an opaque that may travel apart.
func (r *results) file(offset uint64, n int) error {
	r.words(uint32(n))
	if n == 0 {
		return nil
	}
	buf, err := r.reply.Mem.Alloc(r.ctx, n)
	if err != nil {
		return err
	}
	Fill(buf.Bytes()[:n], offset)
	r.reply.AppendItem(buf, n)
	return nil
}

// reads notes a READ's count and gives what there is for it.
func (s *Server) reads(count uint32) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.largest = max(s.largest, int(count))
	return min(int(count), Boast)
}

func (s *Server) serve3(proc uint32, args io.Reader, out *results) error {
	switch proc {
	case 6:
		var a nfsv3.Read3args
		if _, err := a.ReadFrom(args); err != nil {
			return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
		}
		n := s.reads(a.Count)
		out.words(0, 0, uint32(n), 0)
		return out.file(a.Offset, n)
	case 7:
		var a nfsv3.Write3args
		if _, err := a.ReadFrom(args); err != nil {
			return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
		}
		if !bytes.Equal(a.Data, Data(a.Offset, len(a.Data))) {
			out.words(22, 0, 0) // NFS3ERR_INVAL
			return nil
		}
		out.words(0, 0, 0, uint32(len(a.Data)), 2, 0, 0)
	case 19:
		_, err := (&nfsv3.Fsinfo3res_NFS3_OK{Resok: nfsv3.Fsinfo3resok{
			ObjAttributes: &nfsv3.PostOpAttr_FALSE{}, Maxfilesize: 1 << 62,
			Rtmax: Boast, Rtpref: Boast, Rtmult: 4, Wtmax: Boast, Wtpref: Boast, Wtmult: 4, Dtpref: Boast,
		}}).WriteTo(out)
		return err
	default:
		return &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
	}
	return nil
}

func (s *Server) compound(args io.Reader, out *results) error {
	var a nfsv4.Compound4args
	if _, err := a.ReadFrom(args); err != nil {
		return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
	}
	out.words(0)
	out.reply.Stream = xdr.AppendString(out.reply.Stream, a.Tag)
	out.words(uint32(len(a.Argarray)))
	for _, op := range a.Argarray {
		if err := s.operation(op, out); err != nil {
			return err
		}
	}
	return nil
}

// operation answers one that a strict client makes; others are a test's mistake.
func (s *Server) operation(op nfsv4.NfsArgop4, out *results) error {
	var res io.WriterTo
	switch op := op.(type) {
	case *nfsv4.NfsArgop4_OP_PUTROOTFH:
		res = &nfsv4.NfsResop4_OP_PUTROOTFH{}
	case *nfsv4.NfsArgop4_OP_EXCHANGE_ID:
		res = &nfsv4.NfsResop4_OP_EXCHANGE_ID{OpexchangeId: &nfsv4.ExchangeId4res_NFS4_OK{EirResok4: nfsv4.ExchangeId4resok{
			EirClientid: 1, EirSequenceid: 1, EirFlags: nfsv4.EXCHGID4_FLAG_USE_NON_PNFS, EirStateProtect: &nfsv4.StateProtect4R_SP4_NONE{},
		}}}
	case *nfsv4.NfsArgop4_OP_CREATE_SESSION:
		s.mu.Lock()
		s.sessions = append(s.sessions, op.OpcreateSession)
		s.mu.Unlock()
		res = &nfsv4.NfsResop4_OP_CREATE_SESSION{OpcreateSession: &nfsv4.CreateSession4res_NFS4_OK{CsrResok4: nfsv4.CreateSession4resok{
			CsrSequence: 1, CsrFlags: op.OpcreateSession.CsaFlags, CsrForeChanAttrs: boastful(1<<20, 512), CsrBackChanAttrs: boastful(1<<20, 512),
		}}}
	case *nfsv4.NfsArgop4_OP_SEQUENCE:
		q := op.Opsequence
		res = &nfsv4.NfsResop4_OP_SEQUENCE{Opsequence: &nfsv4.Sequence4res_NFS4_OK{SrResok4: nfsv4.Sequence4resok{
			SrSessionid: q.SaSessionid, SrSequenceid: q.SaSequenceid, SrSlotid: q.SaSlotid, SrHighestSlotid: 511, SrTargetHighestSlotid: 511,
		}}}
	case *nfsv4.NfsArgop4_OP_GETATTR:
		res = &nfsv4.NfsResop4_OP_GETATTR{Opgetattr: &nfsv4.Getattr4res_NFS4_OK{
			Resok4: nfsv4.Getattr4resok{ObjAttributes: attributes(op.Opgetattr.AttrRequest)}}}
	case *nfsv4.NfsArgop4_OP_READDIR:
		res = &nfsv4.NfsResop4_OP_READDIR{Opreaddir: &nfsv4.Readdir4res_NFS4_OK{Resok4: nfsv4.Readdir4resok{Reply: nfsv4.Dirlist4{
			Entries: &nfsv4.Entry4{Cookie: 3, Name: "file", Attrs: attributes(op.Opreaddir.AttrRequest)}, Eof: true,
		}}}}
	case *nfsv4.NfsArgop4_OP_READ:
		n := s.reads(op.Opread.Count)
		out.words(25, 0, 0)
		return out.file(op.Opread.Offset, n)
	case *nfsv4.NfsArgop4_OP_WRITE:
		w := op.Opwrite
		if !bytes.Equal(w.Data, Data(w.Offset, len(w.Data))) {
			return &oncrpc.AcceptError{Stat: oncrpc.SystemErr}
		}
		res = &nfsv4.NfsResop4_OP_WRITE{Opwrite: &nfsv4.Write4res_NFS4_OK{Resok4: nfsv4.Write4resok{Count: uint32(len(w.Data)), Committed: 2}}}
	default:
		return &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
	}
	_, err := res.WriteTo(out)
	return err
}

// attributes are those of a set that the server has: type, size, MAXREAD and
// MAXWRITE.
func attributes(wanted []uint32) (f nfsv4.Fattr4) {
	f.Attrmask = []uint32{0}
	for _, a := range []struct {
		bit   int
		value []byte
	}{
		{1, xdr.AppendUint32(nil, 1)},
		{4, xdr.AppendUint64(nil, 1<<62)},
		{30, xdr.AppendUint64(nil, Boast)},
		{31, xdr.AppendUint64(nil, Boast)},
	} {
		if len(wanted) > 0 && wanted[0]>>a.bit&1 != 0 {
			f.Attrmask[0] |= 1 << a.bit
			f.AttrVals = append(f.AttrVals, a.value...)
		}
	}
	return f
}
