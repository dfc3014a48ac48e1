package rpcrdma_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/wire/ccp"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

func withCCP(s *rpcrdma.Settings) { s.Extensions |= rpcrdma.ExtCCP }

// TestConfiguredSizes: what both sides told through CCP is in force, and every
// message arrives, for any sizes of theirs.
func TestConfiguredSizes(t *testing.T) {
	for _, server := range [][2]uint32{{1024, 1024}, {4096, 4096}, {16384, 2048}, {2048, 65536}} { // sends, takes
		for _, client := range [][2]uint32{{1024, 16384}, {4096, 4096}, {65536, 1024}} {
			t.Run(fmt.Sprint(server, client), func(t *testing.T) {
				set := func(v [2]uint32) func(*rpcrdma.Settings) {
					return func(s *rpcrdma.Settings) {
						withCCP(s)
						s.InlineSendMax, s.InlineReceiveSize = v[0], v[1]
					}
				}
				b := newBed(t, providers[0].make(t), bedConfig{settings: set(server)})
				c, conn := b.dial(set(client))
				of, to := c.Info(), conn.Info()
				if !of.Configuration.Spoken || of.PeerReceive != server[1] || of.InlineSend != min(client[0], server[1]) || of.Configuration.Align != 0 {
					t.Errorf("client: %+v", of)
				}
				if !to.Configuration.Spoken || to.PeerReceive != client[1] || to.InlineSend != min(server[0], client[1]) || to.Configuration.Reads == 0 {
					t.Errorf("server: %+v", to)
				}
				for i, n := range []int{0, 900, 1000, 2000, 4000, 16000, 70000} {
					err := errors.Join(echo(b.ctx, c, n, uint32(i)), writeOut(b.ctx, c, n, uint32(i)), readBack(b.ctx, c, procRead, n, n, uint32(i)))
					if err != nil {
						t.Errorf("%d bytes: %v", n, err)
					}
				}
			})
		}
	}
}

// TestConfiguredProviders: CCP over every provider, with padding, whose
// alignment the server tells; without it, none.
func TestConfiguredProviders(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		server := func(s *rpcrdma.Settings) { padding(s); withCCP(s) }
		b := newBed(t, p, bedConfig{settings: server})
		c, conn := b.dial(server)
		if got := c.Info(); got.Configuration.Align != 512 || got.Padding.Align != 512 {
			t.Errorf("%+v", got)
		}
		should(t, errors.Join(writeOut(b.ctx, c, 2000, 1), readBack(b.ctx, c, procRead, 2000, 2000, 1)))
		if got := conn.Info().Padding; got.Sent != 1 || got.Received != 1 {
			t.Errorf("%+v", got)
		}
		b.settings.Extensions = rpcrdma.ExtCCP
		plain, conn := b.dial(server)
		should(t, writeOut(b.ctx, plain, 2000, 1))
		if got := plain.Info(); !got.Configuration.Spoken || got.Padding.Align != 0 || conn.Stats().Errors != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestNotConfigured: servers and clients that don't speak CCP lose nothing.
func TestNotConfigured(t *testing.T) {
	for _, sides := range [][2]func(*rpcrdma.Settings){{nil, withCCP}, {withCCP, nil}} {
		b := newBed(t, providers[0].make(t), bedConfig{settings: sides[0]})
		c, conn := b.dial(sides[1])
		should(t, errors.Join(echo(b.ctx, c, 3000, 1), writeOut(b.ctx, c, 30000, 1)))
		if c.Info().Configuration != (rpcrdma.Configuration{}) || conn.Info().Configuration != (rpcrdma.Configuration{}) {
			t.Errorf("%+v, %+v", c.Info(), conn.Info())
		}
	}
}

// ccpCall is a call of CCP as it goes out.
func ccpCall(xid, version, proc uint32, args []byte) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 1}
	return append(oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: xid, Program: ccp.Program, Version: version, Procedure: proc}), args...)
}

// TestCCPAnswers: what a server answers, with the setting on and off, live.
func TestCCPAnswers(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	r := b.dialRaw(nil)
	conn := <-b.conns
	args := (&ccp.Args{MaxCall: 8192, MaxReply: 8192, MaxReads: 1}).Append(nil)
	accepted := func(stat oncrpc.AcceptStat) []byte {
		return oncrpc.AppendAcceptError(nil, 0, &oncrpc.AcceptError{Stat: stat, Low: 1, High: 1})[4:]
	}
	config := (&ccp.Reply{MaxCall: 4096, Align: 0, MaxReads: 128}).Append(oncrpc.AppendAcceptedReply(nil, 0))[4:]
	on := rpcrdma.DefaultSettings()
	withCCP(&on)
	for i, tc := range []struct {
		name          string
		on            bool
		version, proc uint32
		args, want    []byte
	}{
		{"off", false, 1, 1, args, accepted(oncrpc.ProgUnavail)},
		{"NULL, off", false, 1, 0, nil, accepted(oncrpc.ProgUnavail)},
		{"NULL", true, 1, 0, nil, accepted(oncrpc.Success)},
		{"version 0", true, 0, 1, args, accepted(oncrpc.ProgMismatch)},
		{"version 2", true, 2, 1, args, accepted(oncrpc.ProgMismatch)},
		{"procedure 2", true, 1, 2, args, accepted(oncrpc.ProcUnavail)},
		{"no arguments", true, 1, 1, nil, accepted(oncrpc.GarbageArgs)},
		{"arguments cut short", true, 1, 1, args[:11], accepted(oncrpc.GarbageArgs)},
		{"more arguments", true, 1, 1, append(args[:12:12], 0, 0, 0, 0), accepted(oncrpc.GarbageArgs)},
		{"configure", true, 1, 1, args, config},
		{"again", true, 1, 1, args, config},
		{"off again", false, 1, 1, args, accepted(oncrpc.ProgUnavail)},
	} {
		s := rpcrdma.DefaultSettings()
		if tc.on {
			s = on
		}
		conn.SetSettings(&s)
		h, body := r.exchange(ccpCall(uint32(i), tc.version, tc.proc, tc.args))
		if h.Proc != rpcrdma1.Msg || !bytes.Equal(body[4:], tc.want) {
			t.Errorf("%s: %+v %x, want %x", tc.name, h, body[4:], tc.want)
		}
		if want := bytes.Equal(tc.want, config) || tc.name == "off again"; conn.Info().Configuration.Spoken != want {
			t.Errorf("%s: %+v", tc.name, conn.Info())
		}
	}
}

// TestConfiguredWhileReceivesGrow: the server announces what each of its posted receives
// takes, while larger ones replace them.
func TestConfiguredWhileReceivesGrow(t *testing.T) {
	set := func(receive uint32) func(*rpcrdma.Settings) {
		return func(s *rpcrdma.Settings) { sized(receive, 4096)(s); s.Extensions |= rpcrdma.ExtCCP }
	}
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: set(4096)})
		r := b.dialRaw(kernelPrivateData)
		conn := <-b.conns
		h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: 1, Version: 2, Credits: 4, Proc: rpcrdma2.Optional}, Option: rpcrdma2.OptInit}
		h.Info = (&rpcrdma2.Init{}).Append(nil)
		r.post(h.Append(nil))
		r.receive()
		conn.SetSettings(settingsOf(set(16384)))
		h = rpcrdma2.Header{Header: rpcrdma1.Header{XID: 2, Version: 2, Credits: 4}}
		args := ccp.Args{MaxCall: 4096, MaxReply: 4096, MaxReads: 1}
		call := oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: 2, Program: ccp.Program, Version: 1, Procedure: 1})
		r.post(append(call, args.Append(nil)...))
		for h.Reset(rpcrdma1.Prefix{}); h.XID != 2 || h.Proc != rpcrdma2.Msg; { // not what the server asks
			body := r.take(&h)
			if want := (&ccp.Reply{MaxCall: 4096, MaxReads: 128}).Append(nil); h.Proc == rpcrdma2.Msg && !bytes.HasSuffix(body, want) {
				t.Errorf("%x, want %x", body, want)
			}
		}
	})
}

// TestConfiguredRaises: a client that said nothing at connect is sent no more
// than 1024 bytes, and what it takes once it said so.
func TestConfiguredRaises(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) { withCCP(s); s.InlineSendMax = 16384 }})
		r := b.dialRaw(nil)
		conn := <-b.conns
		read := func(xid uint32) []byte {
			args := xdr.AppendUint32(xdr.AppendUint32(nil, 3000), 5)
			return message(rpcrdma1.Header{XID: xid}, procRead, args...)
		}
		if h, _ := r.exchange(read(1)); h.Proc != rpcrdma1.Error {
			t.Errorf("%+v", h)
		}
		args := ccp.Args{MaxCall: 1024, MaxReply: rawSize, MaxReads: 4}
		r.exchange(ccpCall(2, 1, 1, args.Append(nil)))
		if h, body := r.exchange(read(3)); h.Proc != rpcrdma1.Msg || len(body) != 24+8+3000+4 {
			t.Errorf("%+v, %d bytes", h, len(body))
		}
		if i := conn.Info(); i.InlineSend != rawSize || i.PeerReceive != rawSize {
			t.Errorf("%+v", i)
		}
	})
}

// TestConfiguredReads: a server that was told how many RDMA Reads may be
// active keeps to it, one included; when none may, it makes none.
func TestConfiguredReads(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: withCCP})
		r := b.dialRaw(nil)
		conn := <-b.conns
		mr := r.memory(16000, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		pattern(mr.Bytes(), 7)
		write := func(xid uint32, segments int) []byte {
			h := rpcrdma1.Header{XID: xid}
			for i := range segments {
				h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Position: 44, Segment: segment(mr, i*400, 400)})
			}
			return message(h, procWrite, append(xdr.AppendUint32(nil, uint32(segments*400)), 0, 0, 0, 9)...)
		}
		for i, reads := range []uint32{1, 3, 0, 1 << 31} {
			args := ccp.Args{MaxCall: 1024, MaxReply: 4096, MaxReads: reads}
			r.exchange(ccpCall(uint32(100+i), 1, 1, args.Append(nil)))
			for k := range 5 {
				r.post(write(uint32(10*i+k), 1+8*k))
			}
			for range 5 {
				var h rpcrdma1.Header
				if r.take(&h); (h.Proc == rpcrdma1.Error) != (reads == 0) {
					t.Fatalf("%d reads: %+v", reads, h)
				}
			}
		}
		// One at a time, all calls with several waited.
		if s := conn.Stats(); s.RDMAReads != 3*(1+9+17+25+33) || s.SendQueueFull < 4 {
			t.Errorf("%d RDMA Reads, %d waits", s.RDMAReads, s.SendQueueFull)
		}
	})
}

// TestServersAnswers: whatever a server answers to CCP, calls go on within
// what it can take.
func TestServersAnswers(t *testing.T) {
	s := rpcrdma.DefaultSettings()
	s.Extensions = rpcrdma.ExtCCP | rpcrdma.ExtMSGP
	s.InlineSendMax, s.InlineReceiveSize, s.DDPMinChunk = 16384, 8192, 1<<20
	answer := func(maxCall, align, reads uint32) []byte {
		return (&ccp.Reply{MaxCall: maxCall, Align: align, MaxReads: reads}).Append(oncrpc.AppendAcceptedReply(nil, 0))
	}
	for name, tc := range map[string]struct {
		private []byte
		reply   []byte // nil is ERR_CHUNK
		sends   uint32
		align   uint32 // in use
		spoken  bool
	}{
		"said nothing at connect": {nil, answer(8192, 64, 1), 8192, 64, true},
		"more than we want":       {nil, answer(1<<32-1, 1024, 1), 16384, 1024, true},
		"less than 1024":          {nil, answer(0, 0, 0), 1024, 0, true},
		"more than at connect":    {kernelPrivateData, answer(8192, 4096, 1), 4096, 4096, true},
		"less than at connect":    {kernelPrivateData, answer(2048, 512, 1), 2048, 512, true},
		"alignment of 100":        {kernelPrivateData, answer(4096, 100, 1), 4096, 0, true},
		"alignment of 1 GiB":      {kernelPrivateData, answer(4096, 1<<30, 1), 4096, 0, true},
		"cut short":               {kernelPrivateData, answer(2048, 64, 1)[:32], 4096, 512, false},
		"too long":                {kernelPrivateData, append(answer(2048, 64, 1), 0, 0, 0, 0), 4096, 512, false},
		"no RPC message":          {kernelPrivateData, bytes.Repeat([]byte{9}, 20), 4096, 512, false},
		"PROG_UNAVAIL":            {kernelPrivateData, oncrpc.AppendAcceptError(nil, 0, &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}), 4096, 512, false},
		"denied":                  {kernelPrivateData, oncrpc.AppendDenied(nil, 0, &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}), 4096, 512, false},
		"ERR_CHUNK":               {kernelPrivateData, nil, 4096, 512, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newGreetingLiar(t, providers[0].make(t), tc.private, &s, func(l *liar) {
				var h rpcrdma1.Header
				call := l.take(&h)
				var c oncrpc.Call
				k, err := oncrpc.DecodeCall(call, &c)
				l.ok(err)
				var args ccp.Args
				l.ok(args.Decode(call[k:]))
				if c.Program != ccp.Program || c.Version != 1 || c.Procedure != 1 || args.MaxCall != 16384 || args.MaxReply != 8192 || args.MaxReads == 0 {
					t.Errorf("%+v, %+v", c, args)
				}
				reply := rpcrdma1.Header{XID: h.XID, Version: 1, Credits: 8}
				if tc.reply == nil {
					reply.Proc, reply.Err = rpcrdma1.Error, rpcrdma1.ErrChunk
				}
				body := bytes.Clone(tc.reply)
				copy(body, call[:4])
				l.send(reply, body)
			})
			i := l.c.Info()
			if i.InlineSend != tc.sends || i.Padding.Align != tc.align || i.Configuration.Spoken != tc.spoken {
				t.Errorf("%+v", i)
			}
			call := newCall(procNull)
			done := begin(func() error { return l.c.Call(l.ctx, &call) })
			h, body := truth(l.next())
			l.send(h, body)
			should(t, <-done)
		})
	}
}

// TestConfiguredEachTime: a client that reconnects asks each server anew.
func TestConfiguredEachTime(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{settings: withCCP})
	s := rpcrdma.DefaultSettings()
	withCCP(&s)
	c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{Settings: &s, Reconnect: &soon})
	must(t, err)
	defer c.Close()
	for i := range 3 {
		must(t, echo(b.ctx, c, 3000, uint32(i)))
		conn := <-b.conns
		if !conn.Info().Configuration.Spoken || !c.Info().Configuration.Spoken || conn.Stats().Calls != 2 {
			t.Errorf("connection %d: %+v", i, conn.Info())
		}
		conn.Close()
	}
}

// TestConfiguredIsNoUse: an answer to CCP alone does not make a connection one
// that was of use: a server that drops each call is not flooded.
func TestConfiguredIsNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := make(chan struct{})
		h := handlerFunc(func(ctx context.Context, _ *call, _ *reply) error {
			called <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: h, settings: withCCP, timeout: 24 * time.Hour})
		s := rpcrdma.DefaultSettings()
		withCCP(&s)
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{
			Settings: &s, Reconnect: &rpcrdma.Reconnect{MinBackoff: time.Second, MaxBackoff: 10 * time.Second},
		})
		must(t, err)
		defer c.Close()
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		failed := begin(func() error { return plain(ctx, c, procNull) })
		for n := 1; ; n++ {
			select {
			case <-called:
				(<-b.conns).Close()
			case err := <-failed:
				if !errors.Is(err, context.DeadlineExceeded) || n < 6 {
					t.Errorf("%d connections: %v", n, err)
				}
				return
			}
			if n > 20 {
				t.Fatalf("%d connections", n)
			}
		}
	})
}

// TestSilentServer: a server that does not answer CCP at all is given up with
// the context; nothing is left.
func TestSilentServer(t *testing.T) {
	p := providers[0].make(t)
	cm, err := p.Listen(t.Context(), bedHost+":0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	s := rpcrdma.DefaultSettings()
	withCCP(&s)
	failed := make(chan error, 1)
	go func() {
		_, err := rpcrdma.Dial(ctx, refereetest.Around(t, p), cm.Addr().String(), rpcrdma.DialConfig{Settings: &s})
		failed <- err
	}()
	r := &raw{t: t, ctx: t.Context()}
	r.id, err = cm.GetRequest(t.Context())
	r.ok(err)
	r.setUp()
	r.ok(r.id.Accept(t.Context(), rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1}))
	r.receive() // the call
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.close()
	r.ok(cm.Close())
	r.ok(p.Close())
}
