package rpcrdma_test

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// padding turns padded messages on and has room for them.
func padding(s *rpcrdma.Settings) {
	s.Extensions = rpcrdma.ExtMSGP
	s.DDPMinChunk = 1 << 20
	s.InlineSendMax, s.InlineReceiveSize = 16384, 16384
}

// TestAlignedWrites: what a client writes inline lies aligned in the memory
// that the service reads it from, and what it reads comes as ever.
func TestAlignedWrites(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var aligned, other atomic.Int32
		h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if c.Procedure == procWrite {
				d := xdr.NewDecoder(c.Args.Stream)
				if b := c.Args.Opaque(&d, maxOpaque); len(b) > 512 && reflect.ValueOf(b).Pointer()%512 == 0 {
					aligned.Add(1)
				} else {
					other.Add(1)
				}
			}
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, p, bedConfig{handler: h, settings: padding})
		c, conn := b.dial(padding)
		large := []int{513, 1000, 1023, 1024, 4095, 4096, 4097, 8191, 15000}
		for i, n := range append([]int{0, 1, 3, 511, 512}, large...) {
			if err := writeOut(b.ctx, c, n, uint32(i)); err != nil {
				t.Fatalf("write of %d bytes: %v", n, err)
			}
			for _, proc := range []uint32{procRead, procHeap} {
				if err := readBack(b.ctx, c, proc, n, n, uint32(i)); err != nil {
					t.Fatalf("read of %d bytes: %v", n, err)
				}
			}
		}
		if int(aligned.Load()) != len(large) || other.Load() != 5 {
			t.Errorf("%d aligned, %d not", aligned.Load(), other.Load())
		}
		server, client := conn.Info().Padding, c.Info().Padding
		if server.Received != uint64(len(large)) || server.Received != client.Sent || server.Sent != 2*server.Received || server.Sent != client.Received {
			t.Errorf("server %+v, client %+v", server, client)
		}
		if s := conn.Stats(); s.RDMAReads+s.RDMAWrites+s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestPaddingIsZeros: memory that was used before shows nothing of it.
func TestPaddingIsZeros(t *testing.T) {
	for _, p := range providers[:1] {
		h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if c.Procedure == procWrite && c.Args.Padding.Align != 0 {
				n := len(c.Args.Stream) - 4 - 4 - 600
				if !bytes.Equal(c.Args.Stream[4:4+n], make([]byte, n)) {
					t.Errorf("padding %x", c.Args.Stream[4:4+n])
				}
			}
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, p.make(t), bedConfig{handler: h, settings: padding})
		c, conn := b.dial(padding)
		for i := range 20 {
			must(t, errors.Join(echo(b.ctx, c, 3000, uint32(i)), writeOut(b.ctx, c, 600, uint32(i))))
		}
		if conn.Info().Padding.Received != 20 {
			t.Errorf("%+v", conn.Info().Padding)
		}
	}
}

// TestPaddingUnderLoad: nothing is lost or wrong while both sides turn padded
// messages on and off.
func TestPaddingUnderLoad(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: padding})
		c, conn := b.dial(padding)
		var seed atomic.Uint64
		change := func() {
			rng := rand.New(rand.NewPCG(3, seed.Add(1)))
			for _, set := range []func(*rpcrdma.Settings){conn.SetSettings, c.SetSettings} {
				s := rpcrdma.DefaultSettings()
				padding(&s)
				s.InlineSendMax = 1024 + uint32(rng.IntN(20000))
				s.DDPMinChunk = uint32(rng.IntN(20000))
				if rng.IntN(2) == 0 {
					s.Extensions = 0
				}
				set(&s)
			}
		}
		load(t, b.ctx, c, 24, 20, change)
		if s := conn.Stats(); s.Errors != 0 {
			t.Errorf("%+v", s)
		}
		if server, client := conn.Info().Padding, c.Info().Padding; server.Received == 0 || server.Sent == 0 ||
			server.Received != client.Sent || server.Sent != client.Received {
			t.Errorf("server %+v, client %+v", server, client)
		}
	})
}

// TestPaddingOff: a peer that pads where it is off gets ERR_CHUNK, and keeps
// its connection.
func TestPaddingOff(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	c, conn := b.dial(func(s *rpcrdma.Settings) { s.Extensions, s.DDPMinChunk = rpcrdma.ExtMSGP, 1<<20 })
	var pe *rpcrdma.PeerError
	if err := writeOut(b.ctx, c, 1000, 1); !errors.As(err, &pe) || pe.Code != rpcrdma1.ErrChunk {
		t.Errorf("%v", err)
	}
	should(t, writeOut(b.ctx, c, 100, 1))
	if info := conn.Info().Padding; info != (rpcrdma.Padding{}) || conn.Stats().Errors != 1 {
		t.Errorf("%+v", info)
	}
}

// TestHostilePadding: padding that is not what it says it is.
func TestHostilePadding(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: padding})
		r := b.dialRaw(kernelPrivateData)
		garbage := oncrpc.AppendAcceptError(nil, 0, &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs})[4:]
		data := bytes.Repeat([]byte{7}, 600)
		write := func(n int) []byte { // the arguments of procWrite, 76 bytes into the Send
			args := xdr.AppendUint32(nil, 600)
			return append(append(append(args, make([]byte, n)...), data...), 0, 0, 0, 9)
		}
		good := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendUint32(nil, 600), crc32.ChecksumIEEE(data)), 9)
		for i, tc := range []struct {
			name          string
			align, thresh uint32
			args          []byte
			refused       bool // ERR_CHUNK
			want          []byte
		}{
			{"right", 512, 600, write(512 - 80), false, good},
			{"below the threshold", 512, 601, write(0), false, good},
			{"aligned already", 16, 600, write(0), false, good},
			{"no padding", 512, 600, write(0), false, garbage},
			{"too little", 512, 600, write(512 - 84), false, garbage},
			{"beyond the message", 65536, 600, write(512 - 80), false, garbage},
			{"nothing behind it", 512, 600, write(0)[:4], false, garbage},
			{"alignment 0", 0, 600, write(0), true, nil},
			{"alignment 3", 3, 600, write(0), true, nil},
			{"alignment 1 GiB", 1 << 30, 600, write(0), true, nil},
			{"padding before the credential", 64, 0, nil, true, nil},
		} {
			h := rpcrdma1.Header{XID: uint32(i), Proc: rpcrdma1.MsgP, Align: tc.align, Thresh: tc.thresh}
			answer, body := r.exchange(message(h, procWrite, tc.args...))
			if tc.refused {
				if answer.Proc != rpcrdma1.Error || answer.Err != rpcrdma1.ErrChunk {
					t.Errorf("%s: %+v", tc.name, answer)
				}
				continue
			}
			if answer.Proc != rpcrdma1.Msg || !bytes.HasSuffix(body, tc.want) || (len(tc.want) > 12 && len(body) != 4+len(tc.want)) {
				t.Errorf("%s: %+v, %x", tc.name, answer, body)
			}
		}
		should(t, r.qp.Err())
	})
}

// TestLiesAboutPadding: a padded reply that is not what it says it is fails
// its call.
func TestLiesAboutPadding(t *testing.T) {
	s := rpcrdma.DefaultSettings()
	s.Extensions = rpcrdma.ExtMSGP
	find := func([]byte) int { return 4 }
	results := func(n, pad int) []byte {
		b := xdr.AppendUint32(xdr.AppendUint32(nil, 1), uint32(n))
		return append(append(b, make([]byte, pad)...), bytes.Repeat([]byte{7}, 600)...)
	}
	for name, tc := range map[string]struct {
		align, thresh uint32
		results       []byte
		find          func([]byte) int
		good          bool
	}{
		// 36 bytes of header, 24 of the write chunk, 24 of the reply's header, 8 of results.
		"right":                {512, 512, results(600, 512-92), find, true},
		"none needed":          {512, 601, results(600, 0), find, true},
		"nowhere to be found":  {512, 512, results(600, 512-92), nil, false},
		"not there":            {512, 512, results(600, 0), find, false},
		"beyond the message":   {65536, 512, results(600, 512-92), find, false},
		"longer than the rest": {512, 512, results(1<<31, 512-92), find, false},
		"no result":            {512, 512, nil, find, false},
		"threshold of 4":       {512, 4, results(600, 512-92), find, false},
		"alignment of 0":       {0, 512, results(600, 512-92), find, false},
		"alignment of 48":      {48, 512, results(600, 512-92), find, false},
		"alignment of 2 Gi":    {1 << 31, 512, results(600, 512-92), find, false},
		"found outside":        {512, 512, results(600, 512-92), func(b []byte) int { return len(b) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t, providers[0].make(t), kernelPrivateData, &s)
			call := newCall(procRead)
			call.MaxReply = 12
			call.Results = []rpcrdma.Result{{Buf: make(heapBuffer, 9004), Max: 9001, Find: tc.find}}
			failed := begin(func() error { return l.c.Call(l.ctx, &call) })
			h, body := truth(l.next())
			h.Proc, h.Align, h.Thresh = rpcrdma1.MsgP, tc.align, tc.thresh
			l.send(h, append(body, tc.results...))
			err := <-failed
			if tc.good && (err != nil || !slices.Equal(call.Reply, results(600, 0))) {
				t.Errorf("%v: %x", err, call.Reply)
			}
			if !tc.good && (!errors.Is(err, rpcrdma.ErrBadReply) || len(call.Reply) != 0) {
				t.Errorf("%v, %d bytes", err, len(call.Reply))
			}
		})
	}
}
