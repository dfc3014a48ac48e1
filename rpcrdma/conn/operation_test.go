package conn

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// An extension that only tests have, with operations 200 and, in answer, 201.
// It is on with extTest.
const (
	extTest               = Extensions(1 << 15)
	optTest               = rpcrdma2.OptType(200)
	optTestAnswer         = rpcrdma2.OptType(201)
	testSilent     uint32 = 0 // no answer
	testAnswered   uint32 = 1 // an answer with the length of the payload
	testImpossible uint32 = 2 // BAD_HEADER
)

// testBody is one word.
type testBody struct {
	opt  rpcrdma2.OptType
	word uint32
}

func (b *testBody) Type() rpcrdma2.OptType   { return b.opt }
func (b *testBody) Size() int                { return xdr.Unit }
func (b *testBody) Append(dst []byte) []byte { return xdr.AppendUint32(dst, b.word) }

func (b *testBody) Decode(data []byte) error {
	d := xdr.NewDecoder(data)
	b.word = d.Uint32()
	if d.Err() != nil || d.Len() > 0 {
		return rpcrdma2.ErrMalformed
	}
	return nil
}

var errTest = errors.New("an impossible operation")

// testOperations handles operation 200 at a responder, or 201 at a requester,
// and tells of what comes.
func testOperations(opt rpcrdma2.OptType, tell func(string)) []Operation {
	return []Operation{{
		Type: opt, Extension: extTest, Body: &testBody{opt: opt},
		Handle: func(m *Message) (rpcrdma2.Body, error) {
			b := m.Body.(*testBody)
			tell(fmt.Sprintf("operation %d of xid %d: %d, payload of %d bytes", b.opt, m.XID, b.word, len(m.Payload)))
			switch b.word {
			case testSilent:
				return nil, nil
			case testImpossible:
				return nil, errTest
			}
			return &testBody{opt: optTestAnswer, word: uint32(len(m.Payload))}, nil
		},
	}}
}

func setV2(t *testing.T, s *Settings, o map[string][]string) {
	t.Helper()
	for v, e := range map[string]Extensions{"off": 0, "on": ExtV2, "required": ExtV2Only} {
		if w := o["v2"]; len(w) > 0 && w[0] == v {
			s.Extensions = s.Extensions&^(ExtV2|ExtV2Only) | e
		}
	}
	switch option(t, o, "xmit", -1) {
	case 0: // what one message says, in one transmission
		s.Extensions |= ExtXmit
	case 1:
		s.Extensions |= ExtXmit | ExtContinuation
	}
	switch option(t, o, "ext", -1) {
	case 0:
		s.Extensions &^= extTest
	case 1:
		s.Extensions |= extTest
	}
}

// TestOperationTooLong: an operation is never longer than a first message may
// be, and there is none in version 1.
func TestOperationTooLong(t *testing.T) {
	s := DefaultSettings()
	for _, c := range []struct {
		extensions Extensions
		bytes      int
		want       error
	}{
		{ExtV2, 980, nil},
		{ExtV2, 996, nil},
		{ExtV2, 1000, ErrCallTooLong},
		{0, 16, ErrDisabled},
	} {
		s.Extensions = c.extensions
		r := NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, Settings: &s})
		r.Connected(4096, 4096)
		set := rpcrdma2.Set{{ID: 1, Data: make([]byte, c.bytes-3*4)}}
		o := &Outgoing{Operation: &rpcrdma2.Update{Now: set}}
		if n := o.Operation.Size(); n != c.bytes {
			t.Fatalf("a body of %d bytes", n)
		}
		if err := r.Plan(o); !errors.Is(err, c.want) {
			t.Errorf("%d bytes: %v, want %v", c.bytes, err, c.want)
		}
		if c.want != nil {
			continue
		}
		r.Begin(o)
		r.spend.Confirm(100, 100)
		r.ready(o)
		if _, ok := r.Launch(o, nil); !ok {
			t.Fatal("not launched")
		}
		o.Build()
		var h Header
		n, err := h.decode(o.Header.Append(nil), speaksAll)
		if err != nil || n != o.Header.Size() || n > FirstMessageMax || h.Option != rpcrdma2.OptUpdate || h.Direction != rpcrdma2.Call {
			t.Errorf("%+v, %d bytes, %v", h, n, err)
		}
	}
}

// TestHeaderOfVersion: Append and Size are those of the header's version, and
// decode takes the versions that are spoken.
func TestHeaderOfVersion(t *testing.T) {
	for _, c := range []struct {
		version uint32
		spoken  versions
		size    int
		want    error
	}{
		{1, speaks1, 28, nil},
		{1, speaksAll, 28, nil},
		{1, speaks2, 28, rpcrdma1.ErrVersion},
		{2, speaks1, 32, rpcrdma1.ErrVersion},
		{2, speaksAll, 32, nil},
		{2, speaks2, 32, nil},
		{0, speaksAll, 28, rpcrdma1.ErrVersion},
		{3, speaksAll, 28, rpcrdma1.ErrVersion},
		{1<<32 - 1, speaks2, 28, rpcrdma1.ErrVersion},
	} {
		h := Header{rpcrdma2.Header{Header: rpcrdma1.Header{XID: 7, Version: c.version}, Direction: rpcrdma2.Reply}}
		b := h.Append(nil)
		got := Header{rpcrdma2.Header{Direction: rpcrdma2.Reply, Info: b}}
		n, err := got.decode(b, c.spoken)
		if len(b) != c.size || h.Size() != c.size || !errors.Is(err, c.want) {
			t.Errorf("version %d where %b are spoken: %d bytes, size %d, %v", c.version, c.spoken, len(b), h.Size(), err)
		}
		if err == nil && (n != c.size || got.Direction != h.Direction*rpcrdma2.Direction(c.version-1) || got.Info != nil) {
			t.Errorf("version %d: %d bytes, %+v", c.version, n, got)
		}
		if _, err = got.decode(b[:15], c.spoken); !errors.Is(err, rpcrdma1.ErrShort) {
			t.Errorf("15 bytes: %v", err)
		}
	}
}
