package referee

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/rpcv2"
)

// bed plays a conversation. Its methods are the actions of the two sides.
type bed struct {
	t     *testing.T
	r     *Referee
	frame uint64
	got   []Violation
	log   []byte // the events, encoded for fuzzing
}

func newBed(t *testing.T, at Vantage) *bed {
	b := &bed{t: t}
	b.r = New(Config{Vantage: at, Report: func(v Violation) { b.got = append(b.got, v) }})
	return b
}

// private returns CM private data (RFC 8797 §4).
func private(flags, send, receive byte) []byte {
	return []byte{0xf6, 0xab, 0x0e, 0x18, 1, flags, send, receive}
}

// connected returns a bed whose sides receive 4 KiB and agree to remote
// invalidation.
func connected(t *testing.T) *bed {
	b := newBed(t, FromAnywhere)
	b.r.Connect(Private{Client: private(1, 3, 3), Server: private(1, 3, 3)})
	return b
}

func (b *bed) event(e Event) {
	b.frame++
	e.Frame = b.frame
	if e.Data != nil && e.Length == 0 {
		e.Length = len(e.Data)
	}
	b.log = appendEvent(b.log, &e)
	b.r.Observe(&e)
}

func (b *bed) send(from Side, data []byte) { b.event(Event{Kind: Send, From: from, Data: data}) }

func (b *bed) sendInvalidate(from Side, stag uint32, data []byte) {
	b.event(Event{Kind: SendInvalidate, From: from, STag: stag, Data: data})
}

// sendOr sends, with invalidation if bad.
func (b *bed) sendOr(bad bool, from Side, data []byte) {
	if bad {
		b.sendInvalidate(from, 8, data)
	} else {
		b.send(from, data)
	}
}

func (b *bed) write(from Side, stag uint32, offset uint64, data []byte) {
	b.event(Event{Kind: Write, From: from, STag: stag, Offset: offset, Data: data})
}

func (b *bed) read(from Side, stag uint32, offset uint64, data []byte) {
	b.event(Event{Kind: Read, From: from, STag: stag, Offset: offset, Length: len(data)})
	b.event(Event{Kind: ReadDone, From: from, Data: data})
}

// rules returns the names of the broken rules, without repetition.
func (b *bed) rules() []string {
	var names []string
	for _, v := range b.got {
		if !slices.Contains(names, v.Rule) {
			names = append(names, v.Rule)
		}
	}
	return names
}

// words encodes XDR words. A []byte is copied unchanged.
func words(parts ...any) []byte {
	var out []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			out = binary.BigEndian.AppendUint32(out, uint32(p))
		case uint32:
			out = binary.BigEndian.AppendUint32(out, p)
		case uint64:
			out = binary.BigEndian.AppendUint64(out, p)
		case []byte:
			out = append(out, p...)
		case seg:
			out = append(out, words(p.stag, p.length, uint64(p.offset))...)
		default:
			panic(p)
		}
	}
	return out
}

type seg struct{ stag, length, offset int }

type rd struct {
	position int
	seg
}

// lists are the chunk lists of a message.
type lists struct {
	reads  []rd
	writes [][]seg
	reply  []seg
}

func (l lists) bytes() []byte {
	var out []byte
	for _, x := range l.reads {
		out = append(out, words(1, x.position, x.seg)...)
	}
	out = append(out, words(0)...)
	for _, chunk := range l.writes {
		out = append(out, words(1, len(chunk))...)
		for _, s := range chunk {
			out = append(out, words(s)...)
		}
	}
	out = append(out, words(0)...)
	if l.reply == nil {
		return append(out, words(0)...)
	}
	out = append(out, words(1, len(l.reply))...)
	for _, s := range l.reply {
		out = append(out, words(s)...)
	}
	return out
}

const (
	msg, nomsg, msgp, done, rdmaError = 0, 1, 2, 3, 4
)

// v1 returns a message of version 1.
func v1(xid, credits, proc int, l lists, payload []byte) []byte {
	return words(xid, 1, credits, proc, l.bytes(), payload)
}

// rpcCallBytes returns an RPC call with its arguments.
func rpcCallBytes(xid int, program uint32, version, procedure int, args ...any) []byte {
	return append(encoded(&rpcv2.RpcMsg{Xid: uint32(xid), Body: &rpcv2.RpcMsgBody_CALL{Cbody: rpcv2.CallBody{
		Rpcvers: 2, Prog: program, Vers: uint32(version), Proc: uint32(procedure),
	}}}), words(args...)...)
}

// rpcReplyBytes returns an RPC reply with status SUCCESS and its results.
func rpcReplyBytes(xid int, results ...any) []byte {
	return append(words(xid, 1, 0, 0, 0, 0), words(results...)...)
}

func encoded(v io.WriterTo) []byte {
	var b bytes.Buffer
	if _, err := v.WriteTo(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// null returns a NULL call of an unknown program.
func null(xid int) []byte { return rpcCallBytes(xid, 0x20020049, 1, 0) }

func callOf(xid, credits int) []byte  { return v1(xid, credits, msg, lists{}, null(xid)) }
func replyOf(xid, credits int) []byte { return v1(xid, credits, msg, lists{}, rpcReplyBytes(xid)) }
