package trace

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// program is an ONC RPC program that a trace knows by name.
type program struct {
	name string
	// procedures by version; those of version 0 are every other version's.
	procedures map[uint32][]string
}

var programs = map[uint32]program{
	100003: {"NFS", map[uint32][]string{
		3: { // RFC 1813 §3
			"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK",
			"MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
		},
		4: {"NULL", "COMPOUND"}, // RFC 8881 §16
	}},
	100005:     {"MOUNT", map[uint32][]string{0: {"NULL", "MNT", "DUMP", "UMNT", "UMNTALL", "EXPORT"}}}, // RFC 1813 §5
	100417:     {"CCP", map[uint32][]string{1: {"NULL", "CONF_RDMA"}}},                                  // RFC 5666 §6
	0x20020049: {"ECHO", map[uint32][]string{1: {"NULL", "ECHO", "READ", "WRITE"}}},
	0x40000000: {"NFS_CB", map[uint32][]string{0: {"NULL", "COMPOUND"}}}, // RFC 8881 §20
}

// names gives the names of program and procedure; the latter is a number when
// it has none. ok is false for a program without a name.
func (r *RPC) names() (prog, proc string, ok bool) {
	p, ok := programs[r.Program]
	if !ok || !r.Known {
		return "", "", false
	}
	list, ok := p.procedures[r.Version]
	if !ok {
		list = p.procedures[0]
	}
	if r.Procedure < uint32(len(list)) {
		return p.name, list[r.Procedure], true
	}
	return p.name, fmt.Sprintf("procedure %d", r.Procedure), true
}

// Name is such as "NFS READ", "" when the program has none or is not known.
func (r *RPC) Name() string {
	prog, proc, ok := r.names()
	if !ok {
		return ""
	}
	return prog + " " + proc
}

var procNames = [...]string{"RDMA_MSG", "RDMA_NOMSG", "RDMA_MSGP", "RDMA_DONE", "RDMA_ERROR"}

// Version 2 has no MSGP and DONE.
var procNames2 = map[rpcrdma1.Proc]string{0: "RDMA2_MSG", 1: "RDMA2_NOMSG", 4: "RDMA2_ERROR", 5: "RDMA2_OPTIONAL"}

// Procedure is the name of the header type, such as RDMA_MSG.
func (m *Message) Procedure() string {
	p, v := m.Header.Proc, m.Header.Version
	name := ""
	switch {
	case v == 1 && int64(p) < int64(len(procNames)):
		name = procNames[p]
	case v == 2:
		name = procNames2[p]
	}
	if name == "" {
		return fmt.Sprintf("header type %d", p)
	}
	return name
}

var operations = map[rpcrdma2.OptType]string{
	rpcrdma2.OptInit: "INIT", rpcrdma2.OptRequest: "REQUEST", rpcrdma2.OptRespond: "RESPOND", rpcrdma2.OptUpdate: "UPDATE",
	rpcrdma2.OptXmtReq: "XMTREQ", rpcrdma2.OptXmtResp: "XMTRESP", rpcrdma2.OptXmtCont: "XMTCONT", rpcrdma2.OptXmtError: "XMTERR",
}

// Operation is the name of the optional operation, "" of other messages.
func (m *Message) Operation() string {
	if !m.Lists || m.Header.Version != rpcrdma2.Version || m.Header.Proc != rpcrdma2.Optional {
		return ""
	}
	if name := operations[m.Header.Option]; name != "" {
		return name
	}
	return fmt.Sprintf("operation %d", m.Header.Option)
}

// Direction is what the header says of it, CALL or REPLY; "" in version 1 and
// of errors, which have none.
func (m *Message) Direction() string {
	switch {
	case !m.Lists || m.Header.Version != rpcrdma2.Version || m.Header.Proc == rpcrdma2.Error:
		return ""
	case m.Header.Direction == rpcrdma2.Call:
		return "CALL"
	}
	return "REPLY"
}

// HeaderError is the error of an RDMA_ERROR header, "" for others.
func (m *Message) HeaderError() string {
	h := &m.Header
	switch {
	case !m.Lists || h.Proc != rpcrdma1.Error:
		return ""
	case h.Err == rpcrdma1.ErrVers:
		return fmt.Sprintf("ERR_VERS (%d to %d)", h.Low, h.High)
	case h.Version == rpcrdma2.Version && h.Err == rpcrdma2.ErrInvalOption:
		return "INVAL_OPTION"
	case h.Version == rpcrdma2.Version:
		return "BAD_HEADER"
	}
	return "ERR_CHUNK"
}
