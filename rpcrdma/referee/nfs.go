package referee

import (
	"encoding/binary"

	"github.com/buildbarn/go-xdr/pkg/protocols/mount"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"
)

const (
	nfsProgram   = nfsv4.NFS4_PROGRAM_PROGRAM_NUMBER
	mountProgram = mount.MOUNT_PROGRAM_PROGRAM_NUMBER

	nfs3Readlink, nfs3Read, nfs3Write, nfs3Symlink = 5, 6, 7, 10 // RFC 1813 §3.3
	nfs4Compound                                   = 1
)

// arguments judges a call's arguments for the programs whose bindings are known
// (RFC 8267; RFC 5666 §6).
func (r *Referee) arguments(d *direction, c *call, m *message, s *stream) {
	forward := d.caller == Client
	r.back.call(r, d, c, m)
	items := &arguments{reduction{r: r, m: m}, argumentChunks(m)}
	switch {
	case items.missed(s.at()): // a chunk within the RPC header
		r.back.undecoded(d)
	case c.rpc.protected:
		if len(items.chunks) > 0 || len(m.writes) > 0 {
			r.report("ddp.protected", m.from, "XID %#x: chunks in a call with integrity or privacy", m.xid)
		}
		r.back.undecoded(d)
	case c.rpc.procedure == 0:
	case c.rpc.is(ccpProgram, ccpVersion):
		r.ccpCall(d, m, s)
		items.rest(s, nil)
	case !forward || m.proc == procMsgp: // the padding of MSGP is not decoded
	case c.rpc.is(nfsProgram, 3):
		items.rest(s, items.nfs3(c.rpc.procedure, s))
	case c.rpc.is(nfsProgram, 4) && c.rpc.procedure == nfs4Compound:
		err := items.nfs4(s)
		if err != nil {
			r.back.undecoded(d)
		}
		items.rest(s, err)
	case c.rpc.program == mountProgram:
		items.none(s)
	}
	r.ccpReads(m)
}

// nfs3 decodes the arguments of a procedure up to its DDP-eligible item (RFC
// 8267 §3).
func (a *arguments) nfs3(procedure uint32, s *stream) error {
	switch procedure {
	case nfs3Write:
		var file nfsv3.NfsFh3
		if _, err := file.ReadFrom(s); err != nil {
			return err
		}
		if err := s.words(4); err != nil { // offset, count, stable
			return err
		}
		return a.item(s)
	case nfs3Symlink:
		var where nfsv3.Diropargs3
		if _, err := where.ReadFrom(s); err != nil {
			return err
		}
		var attributes nfsv3.Sattr3
		if _, err := attributes.ReadFrom(s); err != nil {
			return err
		}
		return a.item(s)
	}
	a.none(s)
	return nil
}

// nfs4 decodes the operations of a COMPOUND (RFC 8267 §4).
func (a *arguments) nfs4(s *stream) error {
	if _, _, err := nfsv4.ReadUtf8strCs(s); err != nil { // tag
		return err
	}
	if err := s.words(1); err != nil { // minorversion
		return err
	}
	n, err := s.word()
	for ; n > 0 && err == nil && !a.over; n-- {
		err = a.op(s)
	}
	return err
}

func (a *arguments) op(s *stream) error {
	op, err := s.word()
	if err != nil {
		return err
	}
	switch nfsv4.NfsOpnum4(op) {
	case nfsv4.OP_WRITE:
		var id nfsv4.Stateid4
		if _, err := id.ReadFrom(s); err != nil {
			return err
		}
		if err := s.words(3); err != nil { // offset, stable
			return err
		}
		return a.item(s)
	case nfsv4.OP_CREATE:
		return a.create(s)
	}
	s.back()
	arg, _, err := nfsv4.ReadNfsArgop4(s)
	if err == nil {
		a.r.back.op(arg)
	}
	return err
}

func (a *arguments) create(s *stream) error {
	kind, err := s.word()
	if err != nil {
		return err
	}
	switch nfsv4.NfsFtype4(kind) {
	case nfsv4.NF4LNK:
		err = a.item(s)
	case nfsv4.NF4BLK, nfsv4.NF4CHR:
		err = s.words(2)
	}
	if err != nil || a.over {
		return err
	}
	if _, _, err := nfsv4.ReadUtf8strCs(s); err != nil { // name
		return err
	}
	var attributes nfsv4.Fattr4
	_, err = attributes.ReadFrom(s)
	return err
}

// results judges a reply's results. The reply's status is SUCCESS.
func (r *Referee) results(d *direction, c *call, m *message, s *stream) {
	if !c.args || c.doubtful || m.proc == procMsgp || len(m.reads) > 0 || c.rpc.procedure == 0 {
		return
	}
	if c.rpc.is(ccpProgram, ccpVersion) {
		r.ccpReply(m, s)
		return
	}
	if d.caller != Client || c.rpc.protected || len(m.writes) != len(c.writes) {
		return
	}
	items := &results{reduction: reduction{r: r, m: m}, call: c}
	switch {
	case c.rpc.is(nfsProgram, 3):
		items.rest(s, items.nfs3(c.rpc.procedure, s))
	case c.rpc.is(nfsProgram, 4) && c.rpc.procedure == nfs4Compound:
		items.rest(s, items.nfs4(s))
	}
}

func (t *results) nfs3(procedure uint32, s *stream) error {
	status, err := s.word()
	if err != nil || status != uint32(nfsv3.NFS3_OK) || procedure != nfs3Readlink && procedure != nfs3Read {
		return err
	}
	if _, _, err := nfsv3.ReadPostOpAttr(s); err != nil {
		return err
	}
	if procedure == nfs3Read {
		if err := s.words(2); err != nil { // count, eof
			return err
		}
	}
	if err := t.item(s); err != nil || t.over {
		return err
	}
	if n := s.Len(); t.last && n > 0 && n < 4 && t.m.inline() {
		t.r.report("ddp.pad-inline", t.m.from, "XID %#x: %d bytes follow data that is in a chunk", t.m.xid, n)
	}
	return nil
}

func (t *results) nfs4(s *stream) error {
	if err := s.words(1); err != nil { // status
		return err
	}
	if _, _, err := nfsv4.ReadUtf8strCs(s); err != nil { // tag
		return err
	}
	n, err := s.word()
	for ; n > 0 && err == nil && !t.over; n-- {
		err = t.op(s)
	}
	return err
}

func (t *results) op(s *stream) error {
	op, err := s.word()
	if err != nil {
		return err
	}
	switch nfsv4.NfsOpnum4(op) {
	case nfsv4.OP_READ, nfsv4.OP_READLINK:
		status, err := s.word()
		if err != nil || status != uint32(nfsv4.NFS4_OK) {
			return err
		}
		if nfsv4.NfsOpnum4(op) == nfsv4.OP_READ {
			if err := s.words(1); err != nil { // eof
				return err
			}
		}
		return t.item(s)
	case nfsv4.OP_READ_PLUS: // RFC 8267 says nothing about it
		t.over = true
		return nil
	}
	s.back()
	_, _, err = nfsv4.ReadNfsResop4(s)
	return err
}

// words skips n words.
func (s *stream) words(n int) error {
	for range n {
		if _, err := s.word(); err != nil {
			return err
		}
	}
	return nil
}

// back steps back over the last word.
func (s *stream) back() { _, _ = s.Seek(-4, 1) }

// Connection Configuration Protocol (RFC 5666 §6.2, §12).
const (
	ccpProgram = 100417
	ccpVersion = 1
	ccpLength  = 12
)

// ccp is the configuration that the two sides agreed on.
type ccp struct {
	limit   [2]int // of a side's Sends, in bytes; 0 if not announced
	noReads [2]bool
	alone   bool // no other call was made before: later calls follow its reply
}

// ccpWords reads what m says. It judges its length, unless not all of it is known.
func (r *Referee) ccpWords(m *message, s *stream, what string) (w [3]uint32, ok bool) {
	if !m.inline() {
		return w, false
	}
	if s.Len() != ccpLength {
		r.report("ccp.form", m.from, "XID %#x: %s of %d bytes", m.xid, what, s.Len())
		return w, false
	}
	var b [ccpLength]byte
	_, _ = s.Read(b[:])
	for i := range w {
		w[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	return w, true
}

func (r *Referee) ccpCall(d *direction, m *message, s *stream) {
	if w, ok := r.ccpWords(m, s, "arguments"); ok {
		r.ccp.alone = d.credits.sent == 1
		r.ccp.limit[m.from.Peer()] = boundedSize(w[1])
		r.ccp.noReads[m.from] = w[2] == 0
	}
}

func (r *Referee) ccpReply(m *message, s *stream) {
	if w, ok := r.ccpWords(m, s, "results"); ok {
		r.ccp.limit[m.from.Peer()] = boundedSize(w[0])
		r.ccp.noReads[m.from] = w[2] == 0 && r.ccp.alone
	}
}

func boundedSize(n uint32) int { return int(min(n, 1<<30)) }

// ccpReads judges a call's read list against the maxrdmaread that its receiver
// announced.
func (r *Referee) ccpReads(m *message) {
	if len(m.reads) > 0 && r.ccp.noReads[m.from.Peer()] {
		r.report("ccp.reads", m.from, "XID %#x: read chunks to a side that told a maxrdmaread of 0", m.xid)
	}
}
