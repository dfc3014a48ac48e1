package ulb

import "slices"

// Opened is how a call and its reply opened a way for callbacks.
type Opened uint8

const (
	// NotOpened means that they opened none.
	NotOpened Opened = iota
	// OpenedSession means that CREATE_SESSION made the connection the session's
	// back channel (RFC 8881 §18.36).
	OpenedSession
	// OpenedBind means that BIND_CONN_TO_SESSION did (RFC 8881 §18.34).
	OpenedBind
	// SetClientID means that the server accepted a callback address from SETCLIENTID (RFC
	// 7530 §16.33). Callbacks may come on a separate connection.
	SetClientID
	// Controlled means that BACKCHANNEL_CTL gave the back channel another
	// program number (RFC 8881 §18.33).
	Controlled
)

const (
	connBackChan = 0x2 // CREATE_SESSION4_FLAG_CONN_BACK_CHAN
	dirBack      = 0x2 // CDFS4_BACK, a bit of channel_dir_from_server4
)

// BackChannel is what a Plan knows about callbacks after the reply.
type BackChannel struct {
	Opened Opened
	// Program is the program number of the callbacks, chosen by the client. It is not valid
	// for OpenedBind, where it is the session's.
	Program uint32
	// Ident is part of each callback of version 4.0. It is valid for SetClientID.
	Ident uint32
}

// asked is what a call says about callbacks.
type asked struct {
	flags   uint32
	program uint32
	ident   uint32
}

// granted handles a tag in the results.
func (p *Plan) granted(o Opened) {
	p.Back = BackChannel{Opened: o, Program: p.asked.program, Ident: p.asked.ident}
	if o == OpenedBind {
		p.Back.Program = 0
	}
	if o != SetClientID {
		p.Back.Ident = 0
	}
}

// maxCallbacks limits the programs of one connection. A client has one, or one per session.
const maxCallbacks = 16

// Callbacks are the program numbers that a connection's client has chosen for callbacks.
// When there are too many, the oldest is removed.
type Callbacks struct {
	programs [maxCallbacks]uint32
	known    int
	next     int
}

// Learn records what a reply has opened.
func (c *Callbacks) Learn(b BackChannel) {
	if b.Opened == NotOpened || b.Opened == OpenedBind || c.Has(b.Program) {
		return
	}
	c.programs[c.next] = b.Program
	c.next = (c.next + 1) % maxCallbacks
	c.known = min(c.known+1, maxCallbacks)
}

// Has reports whether program is one of them.
func (c *Callbacks) Has(program uint32) bool {
	return slices.Contains(c.programs[:c.known], program)
}
