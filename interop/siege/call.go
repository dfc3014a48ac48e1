package siege

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// NFSv3 and MOUNT (RFC 1813).
const (
	nfsProgram   = 100003
	mountProgram = 100005
	version3     = 3

	procGetattr = 1
	procLookup  = 3
	procRead    = 6
	procWrite   = 7
	procMount   = 1

	unstable = 0
)

// bulk is the data of a large READ or WRITE, in bytes.
const bulk = 1 << 20

func rootAuth() oncrpc.Auth {
	sys := oncrpc.AuthSys{MachineName: []byte("siege")}
	return oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: sys.Append(nil)}
}

// message returns an NFS call as an RPC message.
func message(xid, procedure uint32, args []byte) []byte {
	call := oncrpc.Call{XID: xid, Program: nfsProgram, Version: version3, Procedure: procedure, Cred: rootAuth()}
	return append(oncrpc.AppendCall(nil, &call), args...)
}

// record returns an NFS call as a TCP record.
func record(xid, procedure uint32, args []byte) []byte {
	msg := message(xid, procedure, args)
	return append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...)
}

func readArgs(file []byte, offset uint64, n int) []byte {
	return xdr.AppendUint32(xdr.AppendUint64(xdr.AppendOpaque(nil, file), offset), uint32(n))
}

// writeArgs returns the arguments of a WRITE up to its data.
func writeArgs(file []byte, offset uint64, n int) []byte {
	b := xdr.AppendUint64(xdr.AppendOpaque(nil, file), offset)
	for _, v := range []uint32{uint32(n), unstable, uint32(n)} {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

// call sends an NFS call with chunks.
func (p *peer) call(procedure uint32, args []byte, reads []rpcrdma1.ReadSegment, writes []rpcrdma1.WriteChunk) error {
	p.xid++
	h := rpcrdma1.Header{XID: p.xid, Version: 1, Credits: 1024, Proc: rpcrdma1.Msg, Reads: reads, Writes: writes}
	return p.send(append(h.Append(nil), message(p.xid, procedure, args)...))
}

// null makes a NULL call, waits for its reply and returns the credits that the
// reply grants.
func (p *peer) null() (credits int, err error) {
	if err := p.call(0, nil, nil, nil); err != nil {
		return 0, err
	}
	for {
		op, b, err := p.receive()
		switch {
		case err != nil:
			return 0, err
		case op == iwarp.OpWrite: // an empty RDMA Write, with which softiwarp wakes slow peers
			continue
		case op != iwarp.OpSend || len(b) < rpcrdma1.PrefixSize:
			return 0, fmt.Errorf("opcode %d, %d bytes", op, len(b))
		}
		if credits = int(binary.BigEndian.Uint32(b[8:])); credits == 0 {
			return 0, errors.New("no credits")
		}
		return credits, nil
	}
}

// read asks for 1 MiB of a file, to be written to memory that does not exist.
func (p *peer) read(file []byte) error {
	return p.call(procRead, readArgs(file, 0, bulk), nil, []rpcrdma1.WriteChunk{{{Handle: p.xid, Length: bulk}}})
}

// write offers 1 MiB for a file, to be read from memory that does not exist.
func (p *peer) write(file []byte) error {
	args := writeArgs(file, 0, bulk)
	at := uint32(len(message(0, procWrite, args)))
	return p.call(procWrite, args, []rpcrdma1.ReadSegment{{Position: at, Segment: rpcrdma1.Segment{Handle: p.xid, Length: bulk}}}, nil)
}
