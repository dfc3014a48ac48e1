package referee

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/buildbarn/go-xdr/pkg/protocols/rpcv2"
)

const (
	rpcCallType  = uint32(rpcv2.CALL)
	rpcReplyType = uint32(rpcv2.REPLY)
	authGSS      = 6 // RFC 2203 §5
)

// rpcCall is what the RPC header of a call says.
type rpcCall struct {
	program, version, procedure uint32
	gss, protected              bool // RPCSEC_GSS; RPCSEC_GSS with integrity or privacy
}

func (c rpcCall) is(program, version uint32) bool {
	return c.program == program && c.version == version
}

// msgType returns the second word of an RPC message, its msg_type (RFC 5531
// §9).
func msgType(text []byte) (uint32, bool) {
	if len(text) < 8 {
		return 0, false
	}
	return binary.BigEndian.Uint32(text[4:]), true
}

// cut reports whether decoding ended because bytes are missing.
func cut(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// callText judges the known part of a call's RPC message.
func (r *Referee) callText(d *direction, c *call, m *message, text []byte) {
	if len(text) < 8 {
		r.back.undecoded(d)
		return
	}
	if !r.sameXID(m, text) {
		return
	}
	if kind, _ := msgType(text); kind != rpcCallType {
		r.report("rpc.direction", m.from, "XID %#x: msg_type is %d in a call", m.xid, kind)
		return
	}
	s := newStream(text)
	var msg rpcv2.RpcMsg
	if _, err := msg.ReadFrom(s); err != nil {
		if m.inline() || uint64(len(text)) == m.longLength() || !cut(err) {
			r.report("rpc.header", m.from, "XID %#x: %v", m.xid, err)
			r.notCall(d, m)
		}
		r.back.undecoded(d)
		return
	}
	body := msg.Body.(*rpcv2.RpcMsgBody_CALL).Cbody
	if body.Rpcvers != 2 {
		r.report("rpc.header", m.from, "XID %#x: RPC version %d", m.xid, body.Rpcvers)
		r.notCall(d, m)
		return
	}
	c.args = true
	c.rpc = rpcCall{program: body.Prog, version: body.Vers, procedure: body.Proc, gss: body.Cred.Flavor == authGSS}
	c.rpc.protected = c.rpc.gss && protectedGSS(body.Cred.Body)
	r.arguments(d, c, m, s)
}

// notCall handles a message that was taken for a call but can't be decoded. Its
// receiver may take it for the answer to a call with its XID.
func (r *Referee) notCall(d *direction, m *message) {
	other := r.dirs[d.caller.Peer()]
	if c := other.calls[m.xid]; c != nil {
		r.doubt(other, c, m)
	}
}

// inline reports whether the whole RPC message is in the Send.
func (m *message) inline() bool { return m.whole && m.proc != procNomsg }

// sameXID judges whether the RPC message has the XID of the header.
func (r *Referee) sameXID(m *message, text []byte) bool {
	if xid := binary.BigEndian.Uint32(text); xid != m.xid {
		r.report("xid.mismatch", m.from, "the header has XID %#x, the RPC message %#x", m.xid, xid)
		return false
	}
	return true
}

// protectedGSS reports whether an RPCSEC_GSS credential belongs to a call with
// wrapped arguments: procedure DATA with integrity or privacy (RFC 2203 §5).
func protectedGSS(cred []byte) bool {
	if len(cred) < 16 {
		return false
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(cred[4*i:]) }
	return word(0) == 1 && word(1) == 0 && (word(3) == 2 || word(3) == 3)
}

// replyText judges the known part of a reply's RPC message.
func (r *Referee) replyText(d *direction, c *call, m *message, text []byte) {
	if len(text) < 8 || !r.sameXID(m, text) {
		return
	}
	if kind, _ := msgType(text); kind != rpcReplyType {
		r.report("rpc.direction", m.from, "XID %#x: msg_type is %d in a reply", m.xid, kind)
		return
	}
	s := newStream(text)
	var msg rpcv2.RpcMsg
	if _, err := msg.ReadFrom(s); err != nil {
		if m.inline() || !cut(err) {
			r.report("rpc.header", m.from, "XID %#x: %v", m.xid, err)
		}
		return
	}
	accepted, ok := msg.Body.(*rpcv2.RpcMsgBody_REPLY).Rbody.(*rpcv2.ReplyBody_MSG_ACCEPTED)
	if !ok || accepted.Areply.ReplyData.GetStat() != rpcv2.SUCCESS {
		return
	}
	if c.fault != faultNone && !c.doubtful {
		r.report("error.code", m.from, "XID %#x: SUCCESS answers a call whose header can't be read", m.xid)
		return
	}
	r.results(d, c, m, s)
}

// stream reads an RPC message whose chunk data was removed. at returns
// positions in the original message.
type stream struct {
	bytes.Reader
	length int
	moved  uint64 // bytes in chunks so far
}

func newStream(b []byte) *stream {
	s := &stream{length: len(b)}
	s.Reset(b)
	return s
}

// at returns the position in the original message, chunk data included.
func (s *stream) at() uint64 { return uint64(s.length-s.Len()) + s.moved }

func (s *stream) word() (uint32, error) {
	var b [4]byte
	_, err := io.ReadFull(s, b[:])
	return binary.BigEndian.Uint32(b[:]), err
}

// skip skips n bytes of data and their roundup.
func (s *stream) skip(n uint32) error {
	if roundup(uint64(n)) > uint64(s.Len()) {
		return io.ErrUnexpectedEOF
	}
	_, err := s.Seek(int64(roundup(uint64(n))), io.SeekCurrent)
	return err
}
