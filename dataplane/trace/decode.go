package trace

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Message is a decoded event. Its slices are the Decoder's, valid until the
// next Decode.
type Message struct {
	*Event
	// Prefix says that Header has its prefix fields, Lists that it is whole.
	Prefix, Lists bool
	// Header is of version 1 or 2; it has version 2's fields.
	Header rpcrdma2.Header
	// RPC is the beginning of the RPC message after the header, if there is
	// one.
	RPC    RPC
	HasRPC bool
	// Detail says more of an operation of version 2 that is a transmission.
	Detail string
	// Malformed says what could not be decoded, although it was all there.
	Malformed string
}

// RPC is the beginning of an RPC message.
type RPC struct {
	Reply bool
	// Program, Version and Procedure of a call, or of the call that a reply
	// answers if Known.
	Program, Version, Procedure uint32
	Known                       bool
	// Status of a reply: SUCCESS, an accept_stat, or why it was denied.
	Status string
	Length int // bytes of the message in the Send
}

// maxCalls bounds the calls that a Decoder remembers to name their replies.
const maxCalls = 4096

// callKey is a call that has not been answered.
type callKey struct {
	conn *Conn
	xid  uint32
	in   bool
}

// Decoder decodes events in their order. It remembers calls, so that replies
// have names. Not for several goroutines.
type Decoder struct {
	msg   Message
	calls map[callKey]RPC
}

// NewDecoder makes a decoder.
func NewDecoder() *Decoder { return &Decoder{calls: make(map[callKey]RPC)} }

// Decode decodes an event. Whatever a peer sent, the result is a Message.
func (d *Decoder) Decode(e *Event) *Message {
	m := &d.msg
	*m = Message{Event: e, Header: m.Header}
	if !e.send() {
		return m
	}
	n, err := m.decodeHeader(e.Data)
	switch {
	case errors.Is(err, rpcrdma1.ErrShort):
		m.malformed(err)
		return m
	case errors.Is(err, rpcrdma1.ErrVersion):
		m.Prefix = true
		m.malformed(errVersion)
		return m
	case err != nil:
		m.Prefix = true
		m.malformed(err)
		return m
	}
	m.Prefix, m.Lists = true, true
	switch {
	case m.message():
		d.decodeRPC(m, e.Data[n:])
		m.RPC.Length = e.Length - n
	case m.Operation() != "":
		if payload := m.transmission(e.Data[n:]); len(payload) > 0 {
			d.decodeRPC(m, payload)
			m.RPC.Length = len(payload)
		}
	}
	return m
}

// decodeHeader decodes a header of either version.
func (m *Message) decodeHeader(b []byte) (n int, err error) {
	if p, ok := rpcrdma1.DecodePrefix(b); ok && p.Version == rpcrdma2.Version {
		return m.Header.Decode(b)
	}
	m.Header.Direction, m.Header.Option, m.Header.Info = 0, 0, nil
	return m.Header.Header.Decode(b)
}

// message says that an RPC message, or its beginning, follows the header.
func (m *Message) message() bool {
	return m.Header.Proc == rpcrdma1.Msg || m.Header.Proc == rpcrdma1.MsgP
}

// malformed notes an error, unless it only says that bytes were left behind.
func (m *Message) malformed(err error) {
	if m.Whole() {
		m.Malformed = err.Error()
	}
}

var (
	errVersion = errors.New("unknown version")
	errXID     = errors.New("XIDs of transport header and RPC message differ")
)

// decodeRPC decodes the beginning of an RPC message.
func (d *Decoder) decodeRPC(m *Message, b []byte) {
	xid, kind, ok := oncrpc.MessageType(b)
	switch {
	case !ok:
		m.malformed(oncrpc.ErrMalformed)
		return
	case xid != m.Header.XID:
		m.malformed(errXID)
		return
	case kind == oncrpc.MsgCall:
		d.decodeCall(m, b)
	default:
		d.decodeReply(m, b)
	}
}

func (d *Decoder) decodeCall(m *Message, b []byte) {
	var c oncrpc.Call
	if _, err := oncrpc.DecodeCall(b, &c); err != nil {
		m.malformed(err)
		return
	}
	m.HasRPC = true
	m.RPC = RPC{Program: c.Program, Version: c.Version, Procedure: c.Procedure, Known: true}
	if len(d.calls) == maxCalls {
		clear(d.calls)
	}
	d.calls[callKey{m.Conn, m.Header.XID, m.In}] = m.RPC
}

func (d *Decoder) decodeReply(m *Message, b []byte) {
	var h oncrpc.ReplyHeader
	_, err := oncrpc.DecodeReply(b, &h)
	status, ok := replyStatus(err)
	if !ok {
		m.malformed(err)
		return
	}
	m.HasRPC = true
	key := callKey{m.Conn, m.Header.XID, !m.In}
	m.RPC = d.calls[key]
	delete(d.calls, key)
	m.RPC.Reply, m.RPC.Status = true, status
}

// replyStatus is what a reply without malformation says.
func replyStatus(err error) (string, bool) {
	var accept *oncrpc.AcceptError
	var denied *oncrpc.DeniedError
	switch {
	case err == nil:
		return oncrpc.Success.String(), true
	case errors.As(err, &accept):
		return accept.Stat.String(), true
	case errors.As(err, &denied) && denied.Stat == oncrpc.AuthError:
		return "AUTH_ERROR " + denied.Auth.String(), true
	case errors.As(err, &denied):
		return fmt.Sprintf("RPC_MISMATCH (%d to %d)", denied.Low, denied.High), true
	}
	return "", false
}
