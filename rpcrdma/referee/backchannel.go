package referee

import "github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

// backchannel tracks whether the client accepts calls from the server. Only
// NFSv4 shows this on the wire.
type backchannel struct {
	nfs4   bool // the client called NFSv4
	ready  bool
	unsure bool // the client called another program, or made a call that could not be decoded
}

// call records a call of the client, and checks a call of the server.
func (b *backchannel) call(r *Referee, d *direction, c *call, m *message) {
	switch {
	case d.caller == Client:
		b.nfs4 = b.nfs4 || c.rpc.is(nfsProgram, 4)
		b.unsure = b.unsure || !c.rpc.is(nfsProgram, 4) && c.rpc.program != ccpProgram
	case b.nfs4 && !b.ready && !b.unsure:
		r.report("backchannel.early", m.from, "XID %#x calls program %d, and the client has opened no back channel", m.xid, c.rpc.program)
	}
}

// undecoded records a call that may have opened the back channel.
func (b *backchannel) undecoded(d *direction) {
	if d.caller == Client {
		b.unsure = true
	}
}

// op records an operation of a COMPOUND (RFC 8881 §18.34, §18.36).
func (b *backchannel) op(arg nfsv4.NfsArgop4) {
	switch op := arg.(type) {
	case *nfsv4.NfsArgop4_OP_CREATE_SESSION:
		b.ready = b.ready || op.OpcreateSession.CsaFlags&nfsv4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN != 0
	case *nfsv4.NfsArgop4_OP_BIND_CONN_TO_SESSION:
		b.ready = b.ready || op.OpbindConnToSession.BctsaDir != nfsv4.CDFC4_FORE
	}
}
