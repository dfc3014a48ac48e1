package siege

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// bulk is the data of a large READ or WRITE, in bytes.
const bulk = 1 << 20

// stableSize is the data of a stable WRITE, in bytes, which travels inline.
const stableSize = 1 << 10

// message returns an NFS call as an RPC message.
func message(xid, procedure uint32, args []byte) []byte {
	call := oncrpc.Call{XID: xid, Program: nfstest.Program, Version: nfstest.Version3, Procedure: procedure, Cred: rootAuth}
	return append(oncrpc.AppendCall(nil, &call), args...)
}

// record returns an NFS call as a TCP record.
func record(xid, procedure uint32, args []byte) []byte {
	msg := message(xid, procedure, args)
	return append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...)
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
	return p.call(nfstest.ProcRead, nfstest.ReadArgs(file, 0, bulk), nil, []rpcrdma1.WriteChunk{{{Handle: p.xid, Length: bulk}}})
}

// write offers 1 MiB for a file, to be read from memory that does not exist.
func (p *peer) write(file []byte) error {
	args := nfstest.WriteArgs(file, 0, bulk, nfstest.Unstable)
	at := uint32(len(message(0, nfstest.ProcWrite, args)))
	return p.call(nfstest.ProcWrite, args, []rpcrdma1.ReadSegment{{Position: at, Segment: rpcrdma1.Segment{Handle: p.xid, Length: bulk}}}, nil)
}

// writeStable sends 1 KiB for the beginning of a file, to be on the disk before the answer.
func (p *peer) writeStable(file []byte) error {
	args := append(nfstest.WriteArgs(file, 0, stableSize, nfstest.FileSync), make([]byte, stableSize)...)
	return p.call(nfstest.ProcWrite, args, nil, nil)
}
