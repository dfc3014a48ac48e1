package xdrin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/goxdrtest"
)

// kinds are the types that arrive from a peer.
var kinds = []struct {
	name string
	make func() xdr.XdrType
}{
	{"header", func() xdr.XdrType { return new(goxdr.Rpcrdma2_xprt_hdr) }},
	{"INIT", func() xdr.XdrType { return new(goxdr.Optinit_xch) }},
	{"REQUEST", func() xdr.XdrType { return new(goxdr.Optreq_xch) }},
	{"RESPOND", func() xdr.XdrType { return new(goxdr.Optresp_xch) }},
	{"UPDATE", func() xdr.XdrType { return new(goxdr.Optupd_xch) }},
	{"XMTREQ", func() xdr.XdrType { return new(goxdr.Optxmt_req) }},
	{"XMTRESP", func() xdr.XdrType { return new(goxdr.Optxmt_resp) }},
	{"XMTCONT", func() xdr.XdrType { return new(goxdr.Optxmt_cont) }},
	{"XMTERR", func() xdr.XdrType { return new(goxdr.Optxmt_err) }},
	{"buffer structure", func() xdr.XdrType { return new(goxdr.Xmrbs_buf) }},
	{"backward support", func() xdr.XdrType { return goxdr.XDR_Xchbrs(new(goxdr.Xchbrs)) }},
}

// decodeAll decodes v from all of b.
func decodeAll(b []byte, v xdr.XdrType) error {
	n, err := Decode(b, v)
	if err == nil && n != len(b) {
		return errors.New("bytes are left over")
	}
	return err
}

// TestRoundTrip encodes random values of every type. They decode to what
// encodes to the same bytes; without their last word they don't decode.
func TestRoundTrip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, k := range kinds {
		for range 500 {
			want := k.make()
			goxdrtest.Fill(rnd, want)
			encoded := goxdrtest.Encode(want)
			got := k.make()
			if err := decodeAll(encoded, got); err != nil || !bytes.Equal(goxdrtest.Encode(got), encoded) {
				t.Fatalf("%s: %x decodes to %x, %v", k.name, encoded, goxdrtest.Encode(got), err)
			}
			if n, err := Decode(append(encoded, "payload"...), k.make()); err != nil || n != len(encoded) {
				t.Fatalf("%s: %d bytes of %d, %v", k.name, n, len(encoded), err)
			}
			if _, err := Decode(encoded[:len(encoded)-4], k.make()); !errors.Is(err, ErrShort) {
				t.Fatalf("%s: cut short gives %v", k.name, err)
			}
		}
	}
}

// TestRefused has values that no type has.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		into  xdr.XdrType
		words []uint32
	}{
		{"unknown header type", new(goxdr.Rpcrdma2_xprt_hdr), []uint32{1, 2, 1, 2}},
		{"unknown direction", new(goxdr.Rpcrdma2_xprt_hdr), []uint32{1, 2, 1, 0, 2, 0, 0, 0}},
		{"unknown error", new(goxdr.Rpcrdma2_xprt_hdr), []uint32{1, 2, 1, 4, 9}},
		{"a list that goes on with 2", new(goxdr.Rpcrdma2_xprt_hdr), []uint32{1, 2, 1, 0, 0, 2, 0, 0}},
		{"CHOICE where data is", new(goxdr.Xmddp_loc), []uint32{3, 0}},
		{"NOITEM asked for", new(goxdr.Xmddp_rsdloc), []uint32{6}},
		{"more items than bytes", new(goxdr.Optxmt_resp), []uint32{0xffffffff, 1, 0}},
		{"bytes left over", new(goxdr.Optxmt_cont), []uint32{1, 5, 0, 0}},
	} {
		if err := decodeAll(words(c.words...), c.into); err == nil {
			t.Errorf("%s: decodes", c.name)
		}
	}
}

func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// TestHostileCounts decodes what claims, or holds, very many elements: memory
// stays in proportion to the bytes.
func TestHostileCounts(t *testing.T) {
	writes := words(1, 2, 1, 0, 0, 0)
	for range 1 << 15 {
		writes = append(writes, words(1, 0)...)
	}
	writes = append(writes, words(0, 0)...)
	for _, claim := range [][]byte{
		words(1, 2, 1, 5, 0, 5, 0xfffffffc),    // optinfo
		words(1, 2, 1, 0, 0, 0, 1, 0x3fffffff), // segments
		append(words(0x00010000), writes...),   // items
		append(words(0, 0xffff, 0), writes...), // directions
		writes,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, k := range kinds {
			_ = decodeAll(claim, k.make())
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20+200*uint64(len(claim)) {
			t.Errorf("%x… of %d bytes took %d bytes of memory", claim[:12], len(claim), n)
		}
	}
}

// FuzzDecode decodes anything. What decodes encodes to what decodes to the same.
func FuzzDecode(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for i, k := range kinds {
		for range 4 {
			v := k.make()
			goxdrtest.Fill(rnd, v)
			f.Add(uint8(i), goxdrtest.Encode(v))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		k := kinds[int(kind)%len(kinds)]
		v := k.make()
		n, err := Decode(b, v)
		if n > len(b) {
			t.Fatalf("took %d bytes of %d", n, len(b))
		}
		if err != nil {
			return
		}
		encoded, again := goxdrtest.Encode(v), k.make()
		if err := decodeAll(encoded, again); err != nil || !bytes.Equal(goxdrtest.Encode(again), encoded) {
			t.Fatalf("%s: %x, then %x, %v", k.name, encoded, goxdrtest.Encode(again), err)
		}
	})
}
