package trace

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// names returns the names of program and procedure. A procedure without a name
// gets its number. ok is false if the program has no name.
func (r *RPC) names() (prog, proc string, ok bool) {
	if !r.Known {
		return "", "", false
	}
	if i := programs.Find(r.Program, r.Version); i >= 0 && r.Procedure < uint32(len(programs.All[i].Procedures)) {
		return programs.All[i].Name, programs.All[i].Procedures[r.Procedure], true
	}
	prog = programs.Name(r.Program)
	return prog, fmt.Sprintf("procedure %d", r.Procedure), prog != ""
}

// Name returns the names of program and procedure, for example "NFS READ". It
// returns "" if the program is unknown or has no name.
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

// Procedure returns the name of the header type, for example "RDMA_MSG".
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

// Operation returns the name of the optional operation, or "" for other messages.
func (m *Message) Operation() string {
	if !m.Lists || m.Header.Version != rpcrdma2.Version || m.Header.Proc != rpcrdma2.Optional {
		return ""
	}
	if name := operations[m.Header.Option]; name != "" {
		return name
	}
	return fmt.Sprintf("operation %d", m.Header.Option)
}

// Direction returns the direction in the header, "CALL" or "REPLY". It returns
// "" for version 1 and for errors, which have none.
func (m *Message) Direction() string {
	switch {
	case !m.Lists || m.Header.Version != rpcrdma2.Version || m.Header.Proc == rpcrdma2.Error:
		return ""
	case m.Header.Direction == rpcrdma2.Call:
		return "CALL"
	}
	return "REPLY"
}

// HeaderError returns the error of an RDMA_ERROR header, or "" for other messages.
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
