package rpcrdma_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestNegotiatedSizes: each direction's threshold is the smaller of what its
// sender makes and its receiver takes, in whole KiB. Messages of that size
// travel inline, longer ones do not.
func TestNegotiatedSizes(t *testing.T) {
	told := func(n uint32) uint32 { return n / 1024 * 1024 }
	some := []uint32{1024, 2048, 4096, 5000, 65536, 262144}
	for i, clientSend := range some {
		for j, serverSend := range some {
			clientReceive, serverReceive := some[(i+j)%len(some)], some[(2*i+j+1)%len(some)]
			t.Run(fmt.Sprintf("client %d %d server %d %d", clientSend, clientReceive, serverSend, serverReceive), func(t *testing.T) {
				b := newBed(t, loopback.New(loopback.Config{}), bedConfig{settings: func(s *rpcrdma.Settings) {
					s.InlineSendMax, s.InlineReceiveSize, s.CreditsMax = serverSend, serverReceive, 2
				}})
				c, conn := b.dial(func(s *rpcrdma.Settings) {
					s.InlineSendMax, s.InlineReceiveSize, s.CreditsMax = clientSend, clientReceive, 2
				})
				calls, replies := min(told(clientSend), told(serverReceive)), min(told(serverSend), told(clientReceive))
				ci, si := c.Info(), conn.Info()
				if ci.InlineSend != calls || si.InlineSend != replies || ci.PeerReceive != calls || si.PeerReceive != replies {
					t.Errorf("%d and %d, want %d and %d", ci.InlineSend, si.InlineSend, calls, replies)
				}
				if ci.InlineReceive != told(clientReceive) || si.InlineReceive != told(serverReceive) ||
					ci.PeerReceiveSize != told(serverReceive) || si.PeerReceiveSize != told(clientReceive) {
					t.Errorf("client %+v, server %+v", ci, si)
				}
				// Transport header, RPC header, length word; none has a chunk.
				const callHeader, replyHeader = 28 + 40 + 4, 28 + 24 + 4
				for _, n := range []uint32{calls - callHeader, replies - replyHeader} {
					for _, more := range []uint32{0, 4} {
						before := c.Stats()
						if err := echo(b.ctx, c, int(n+more), n); err != nil {
							t.Fatalf("%d bytes: %v", n+more, err)
						}
						s := c.Stats()
						long := s.LongCalls > before.LongCalls
						offered := s.ReplyChunks > before.ReplyChunks
						if offered != (n+more+replyHeader > replies) {
							t.Errorf("%d bytes, reply chunk %v", n+more, offered)
						}
						header := uint32(callHeader)
						if offered {
							header += 20
						}
						if long != (n+more+header > calls) {
							t.Errorf("%d bytes, long call %v", n+more, long)
						}
					}
				}
			})
		}
	}
}

// privateDatas are what a peer may say about itself.
var privateDatas = []struct {
	name, hex     string
	send, receive uint32
	invalidation  bool
}{
	{"none", "", 1024, 1024, false},
	{"one byte", "f6", 1024, 1024, false},
	{"a byte short", "f6ab0e18010103", 1024, 1024, false},
	{"kernel client", "f6ab0e1801010303", 4096, 4096, true},
	{"kernel server", "f6ab0e1801000303", 4096, 4096, false},
	{"smallest", "f6ab0e1801000000", 1024, 1024, false},
	{"largest", "f6ab0e180101ffff", 262144, 262144, true},
	{"receives more than it sends", "f6ab0e180101003f", 1024, 65536, true},
	{"sends more than it receives", "f6ab0e1801013f00", 65536, 1024, true},
	{"bytes after it", "f6ab0e1801010707" + "00112233445566778899", 8192, 8192, true},
	{"reserved flags", "f6ab0e1801fe0303", 4096, 4096, false},
	{"all flags", "f6ab0e1801ff0303", 4096, 4096, true},
	{"foreign", "0011223344556677", 1024, 1024, false},
	{"other byte order", "180eabf601010303", 1024, 1024, false},
	{"one byte too late", "00f6ab0e1801010303", 1024, 1024, false},
	{"version 0", "f6ab0e1800010303", 1024, 1024, false},
	{"version 2", "f6ab0e1802010303", 1024, 1024, false},
	{"version 255", "f6ab0e18ff010303", 1024, 1024, false},
}

// large are settings that leave all limits to the peer.
func large(s *rpcrdma.Settings) {
	s.InlineSendMax, s.InlineReceiveSize, s.CreditsMax = 262144, 262144, 2
}

// TestPeersPrivateData: what either role makes of it.
func TestPeersPrivateData(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: large})
		invalidates := p.Device().Attr().SendInvalidate
		for _, pd := range privateDatas {
			b.dialRaw(unhex(t, pd.hex))
			i := (<-b.conns).Info()
			if i.InlineSend != pd.receive || i.PeerReceiveSize != pd.receive || i.InlineReceive != 262144 ||
				i.RemoteInvalidation != (pd.invalidation && invalidates) || i.PeerRemoteInvalidation != i.RemoteInvalidation {
				t.Errorf("%s: %+v", pd.name, i)
			}
		}
	})
	for _, of := range providers {
		t.Run("server "+of.name, func(t *testing.T) {
			s := rpcrdma.DefaultSettings()
			large(&s)
			for _, pd := range privateDatas {
				p := of.make(t)
				windows := p.Device().Attr().MemWindowType2B
				l := newLiar(t, p, unhex(t, pd.hex), &s)
				i := l.c.Info()
				if i.InlineSend != pd.receive || i.PeerReceiveSize != pd.receive || i.PeerRemoteInvalidation != pd.invalidation ||
					i.RemoteInvalidation != (pd.invalidation && windows) {
					t.Errorf("%s: %+v", pd.name, i)
				}
				// A reply that the peer's Sends may not hold gets a chunk.
				for _, inline := range []bool{true, false} {
					call := newCall(procNull)
					if call.MaxReply = int(pd.send) - 28 - 24; !inline {
						call.MaxReply++
					}
					returned := begin(func() error { return l.c.Call(l.ctx, &call) })
					h := l.next()
					if h.HasReply == inline {
						t.Errorf("%s: replies of %d bytes: %+v", pd.name, call.MaxReply, h)
					}
					answer, body := truth(h)
					l.send(answer, body)
					must(t, <-returned)
				}
			}
		})
	}
}

// TestInvalidationConditions: replies invalidate only when both sides agreed,
// both devices can, and the setting is on.
func TestInvalidationConditions(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		attr := p.Device().Attr()
		b := newBed(t, p, bedConfig{})
		for i := range 8 {
			client, server, use := i&1 != 0, i&2 != 0, i&4 != 0
			b.settings.RemoteInvalidationAccept, b.settings.RemoteInvalidationUse = server, use
			c, conn := b.dial(func(s *rpcrdma.Settings) { s.RemoteInvalidationAccept = client })
			for n := range 10 {
				must(t, readBack(b.ctx, c, procRead, 10000+n, 10000+n, 1))
			}
			want := uint64(0)
			if client && server && use && attr.SendInvalidate && attr.MemWindowType2B {
				want = 10
			}
			s := c.Stats()
			if got := conn.Stats().SendsWithInvalidate; got != want || s.RemoteInvalidations != want || s.LocalInvalidations != 10-want {
				t.Errorf("client %v, server %v, use %v: %d, %+v", client, server, use, got, s)
			}
		}
	})
}

// TestInvalidatedSTag: what a reply invalidates is the only STag of its call,
// be it in several segments; never one of two, such as a kernel client's pad;
// never with an error.
func TestInvalidatedSTag(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	r := b.dialRaw(kernelPrivateData)
	data := r.memory(20000, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	pad := r.memory(4, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	part := func(s rpcrdma1.Segment, from, n int) rpcrdma1.Segment {
		s.Length, s.Offset = uint32(n), s.Offset+uint64(from)
		return s
	}
	read := binary.BigEndian.AppendUint64(nil, 9001<<32)
	for i, tc := range []struct {
		name   string
		header func(w, pad rpcrdma1.Segment) rpcrdma1.Header
		args   []byte
		proc   uint32
		want   bool
	}{
		{"one segment", func(w, _ rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Writes: []rpcrdma1.WriteChunk{{w}}}
		}, read, procRead, true},
		{"one STag in two segments", func(w, _ rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Writes: []rpcrdma1.WriteChunk{{part(w, 0, 5000), part(w, 5000, 5000)}}}
		}, read, procRead, true},
		{"one STag in two chunks", func(w, _ rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Writes: []rpcrdma1.WriteChunk{{part(w, 0, 10000)}}, HasReply: true, Reply: rpcrdma1.WriteChunk{part(w, 10000, 9000)}}
		}, read, procRead, true},
		{"pad", func(w, pad rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Writes: []rpcrdma1.WriteChunk{{part(w, 0, 9001), pad}}}
		}, read, procRead, false},
		{"pad in the reply chunk", func(w, pad rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Writes: []rpcrdma1.WriteChunk{{w}}, HasReply: true, Reply: rpcrdma1.WriteChunk{pad}}
		}, read, procRead, false},
		{"nothing", func(_, _ rpcrdma1.Segment) rpcrdma1.Header { return rpcrdma1.Header{} }, nil, procNull, false},
		{"error: chunk too small", func(w, _ rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Writes: []rpcrdma1.WriteChunk{{part(w, 0, 100)}}}
		}, read, procRead, false},
		{"error: bad position", func(w, _ rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Reads: []rpcrdma1.ReadSegment{{Position: 41, Segment: w}}}
		}, read, procRead, false},
		{"error: version", func(w, _ rpcrdma1.Segment) rpcrdma1.Header {
			return rpcrdma1.Header{Version: 2, Writes: []rpcrdma1.WriteChunk{{w}}}
		}, read, procRead, false},
	} {
		w := r.window(data, 0, 20000, verbs.AccessRemoteWrite)
		h := tc.header(w, segment(pad, 0, 4))
		h.XID = uint32(i)
		r.post(message(h, tc.proc, tc.args...))
		if _, wc := r.receiveWC(); wc.WithInvalidate != tc.want || (tc.want && wc.Invalidated != w.Handle) {
			t.Errorf("%s: %+v", tc.name, wc)
		}
	}
	// The default private data: nothing was agreed.
	plain := b.dialRaw(wire.DefaultPrivateData().Append(nil))
	mem := plain.memory(10000, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	h := rpcrdma1.Header{XID: 1, Writes: []rpcrdma1.WriteChunk{{plain.window(mem, 0, 10000, verbs.AccessRemoteWrite)}}}
	plain.post(message(h, procRead, read...))
	if _, wc := plain.receiveWC(); wc.WithInvalidate {
		t.Errorf("%+v", wc)
	}
}
