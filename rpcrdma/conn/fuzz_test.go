package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// script is a fuzz input, read as a sequence of choices.
type script struct {
	b  []byte
	v2 bool // both versions in it
}

// version gives a header version 2 now and then, with what that has.
func (s *script) version(h *Header) {
	if !s.v2 {
		return
	}
	switch v := s.byte(); {
	case v < 0xf0:
		h.Version, h.Direction = rpcrdma2.Version, rpcrdma2.Direction(v>>2&1)
		h.Proc = []rpcrdma1.Proc{rpcrdma2.Msg, rpcrdma2.NoMsg, rpcrdma2.Optional, rpcrdma2.Error}[v&3]
		if v>>3 > 4 && h.Proc > rpcrdma2.NoMsg {
			h.Proc = rpcrdma2.Msg
		}
	case v == 0xff:
		h.Version = 3
	}
	switch h.Proc {
	case rpcrdma2.Optional:
		h.Option, h.Info = optUnknown+rpcrdma2.OptType(s.byte()%3), s.bytes(int(s.byte()%6))
	case rpcrdma2.Error:
		h.Err = rpcrdma1.ErrCode(1 + s.byte()%4)
		h.Low, h.High = uint32(s.byte()%4), uint32(s.byte()%4)
	}
}

func (s *script) more() bool { return len(s.b) > 0 }

func (s *script) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

// size is a size of Sends that private data can express, in bytes.
func (s *script) size() uint32 { return 1024 * uint32(1+s.byte()/64) }

// sizes are the sizes of Sends that one end announces at connect.
func (s *script) sizes() wire.PrivateData {
	return wire.PrivateData{RemoteInvalidation: true, SendSize: s.size(), ReceiveSize: s.size()}
}

func (s *script) uint16() int { return int(s.byte())<<8 | int(s.byte()) }

func (s *script) bytes(n int) []byte {
	n = min(n, len(s.b))
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v
}

// hostileMessage makes a message: raw bytes, or a header that is nearly right.
func (s *script) hostileMessage(xid uint32) []byte {
	if s.byte()%8 == 0 {
		return s.bytes(int(s.byte()))
	}
	var h Header
	h.XID, h.Version, h.Credits = xid, 1, uint32(s.byte())
	h.Proc = rpcrdma1.Proc(s.byte() % 5 / 2)
	s.version(&h)
	if h.Proc == rpcrdma1.MsgP {
		h.Align, h.Thresh = 1<<(s.byte()%20), uint32(s.uint16())
	}
	segment := func() rpcrdma1.Segment {
		g := rpcrdma1.Segment{Handle: uint32(s.byte() % 4), Length: uint32(s.uint16()), Offset: uint64(s.byte())}
		if s.byte() == 255 {
			g.Length, g.Offset = g.Length<<16, ^uint64(0)-uint64(g.Handle)
		}
		return g
	}
	for range s.byte() % 4 {
		pos := uint32(s.byte()) * 4
		if s.byte()%8 == 0 {
			pos++
		}
		h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Position: pos, Segment: segment()})
	}
	for range s.byte() % 3 {
		var c rpcrdma1.WriteChunk
		for range s.byte() % 4 {
			c = append(c, segment())
		}
		h.Writes = append(h.Writes, c)
	}
	if h.HasReply = s.byte()%2 == 0; h.HasReply {
		for range s.byte() % 4 {
			h.Reply = append(h.Reply, segment())
		}
	}
	b := h.Append(nil)
	switch s.byte() % 8 {
	case 0:
	case 1:
		b = append(b, s.bytes(60)...)
	case 2:
		b = oncrpc.AppendAcceptedReply(b, xid)
	default:
		b = oncrpc.AppendCall(b, &oncrpc.Call{XID: xid, Program: 1, Version: 1})
		b = append(b, s.bytes(int(s.byte()))...)
	}
	if s.byte() == 254 && len(b) > 0 {
		b[int(s.byte())%len(b)] ^= s.byte()
	}
	return b
}

func pick[T any](s *script, list *[]T) (v T, ok bool) {
	if len(*list) == 0 {
		return v, false
	}
	i := int(s.byte()) % len(*list)
	v = (*list)[i]
	*list = append((*list)[:i], (*list)[i+1:]...)
	return v, true
}
