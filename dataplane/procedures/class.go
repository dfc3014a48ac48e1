package procedures

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
)

// Class is the kind of an error that a call is answered with.
type Class uint8

// The classes of errors.
const (
	// RPC is an answer without results, for example PROC_UNAVAIL or SYSTEM_ERR.
	RPC Class = iota
	// Server is an NFS status that means trouble of the server: its disk, its space, or that
	// the client is to try again later.
	Server
	// Client is any other NFS status, for example NOENT, which is part of normal work.
	Client

	Classes = iota
	success = Classes // no error
)

func (c Class) String() string { return [...]string{"rpc", "server", "client"}[c] }

// classOf returns the class of the answer to a call.
func classOf(call *oncrpc.Call, reply *oncrpc.Reply, err error) Class {
	if err != nil {
		return RPC
	}
	var h oncrpc.ReplyHeader
	n, err := oncrpc.DecodeReply(reply.Stream, &h)
	if err != nil {
		return RPC // of a whole reply from another server
	}
	results := reply.Stream[n:]
	if !hasStatus(call) || len(results) < 4 {
		return success
	}
	return statusClass(binary.BigEndian.Uint32(results))
}

// hasStatus reports whether the results of a call begin with an NFS status. RPCSEC_GSS may
// have encrypted them.
func hasStatus(call *oncrpc.Call) bool {
	switch {
	case call.Procedure == 0 || call.Cred.Flavor == oncrpc.FlavorGSS:
		return false
	case call.Program == programs.Mount:
		return call.Procedure == 1 // MNT
	}
	return call.Program == programs.NFS || call.Program == programs.NFSACL
}

// statusClass returns the class of a status. Versions 2, 3 and 4 have the same numbers.
func statusClass(status uint32) Class {
	switch status {
	case 0:
		return success
	case 5, 6, 19, 28, 10006, 10008, 10018: // IO, NXIO, NODEV, NOSPC, SERVERFAULT, JUKEBOX and DELAY, RESOURCE
		return Server
	}
	return Client
}
