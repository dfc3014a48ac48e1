package trace

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Message is a decoded event. The Decoder owns its slices. They are valid until
// the next call of Decode.
type Message struct {
	*Event
	// Prefix means that the first fields of Header are valid, Lists that all
	// are.
	Prefix, Lists bool
	// Header is a header of version 1 or 2, in the form of version 2.
	Header rpcrdma2.Header
	// RPC is the start of the RPC message after the header. It is valid if
	// HasRPC.
	RPC    RPC
	HasRPC bool
	// Detail describes a transmission of version 2.
	Detail string
	// Malformed says what could not be decoded although no bytes were missing.
	Malformed string
}

// RPC is the start of an RPC message.
type RPC struct {
	Reply bool
	// Program, Version and Procedure are those of a call, or of the call that a
	// reply answers. They are valid if Known.
	Program, Version, Procedure uint32
	Known                       bool
	// Status of a reply is SUCCESS, an accept_stat, or the reason for denial.
	Status string
	Length int // bytes of the message in the Send
}

// maxCalls limits the calls that a Decoder remembers, so that it can name their replies.
const maxCalls = 4096

// callKey identifies an unanswered call.
type callKey struct {
	conn *Conn
	xid  uint32
	in   bool
}

// Decoder decodes events in order. It remembers calls, so that it can name
// their replies. Only one goroutine may use it.
type Decoder struct {
	msg   Message
	calls map[callKey]RPC
}

// NewDecoder makes a decoder.
func NewDecoder() *Decoder { return &Decoder{calls: make(map[callKey]RPC)} }

// Decode decodes an event. Any input of a peer gives a Message.
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
		if payload, length := m.transmission(e.Data[n:], e.Length-n); len(payload) > 0 {
			d.decodeRPC(m, payload)
			m.RPC.Length = length
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

// message reports whether an RPC message, or its start, follows the header.
func (m *Message) message() bool {
	return m.Header.Proc == rpcrdma1.Msg || m.Header.Proc == rpcrdma1.MsgP
}

// malformed records an error, unless bytes of the event are missing.
func (m *Message) malformed(err error) {
	if m.Whole() {
		m.Malformed = err.Error()
	}
}

var (
	errVersion = errors.New("unknown version")
	errXID     = errors.New("XIDs of transport header and RPC message differ")
)

// decodeRPC decodes the start of an RPC message.
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

// replyStatus returns the status of a reply. It returns false for a malformed
// reply.
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
