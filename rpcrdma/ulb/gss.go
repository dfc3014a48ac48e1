package ulb

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// protection is what RPCSEC_GSS does to the body of a call and its reply.
type protection uint8

const (
	// bare: arguments and results are as the program has them.
	bare protection = iota
	// integrity: after a length and a sequence number, and followed by a
	// checksum over both (RFC 2203 §5.3.2.2).
	integrity
	// hidden: encrypted, or none of the program's (context creation), or not
	// understood.
	hidden
)

// RPCSEC_GSS, RFC 2203 §5.2.
const (
	gssVersion   = 1
	gssData      = 0 // rpc_gss_proc_t
	svcNone      = 1 // rpc_gss_service_t
	svcIntegrity = 2

	// gssBodyHead is the length and the sequence number before an integrity
	// protected body, gssBodyTail the largest checksum after it.
	gssBodyHead = 8
	gssBodyTail = 4 + oncrpc.MaxAuthBody
)

// protectionOf reads the credential. A body is never reduced unless it is bare
// (RFC 8166 §3.4.1 takes items out of the stream that the checksum is over):
// with service none, the stream is the program's own and its items are as
// eligible as under any other flavor.
func protectionOf(cred *oncrpc.Auth) protection {
	if cred.Flavor != oncrpc.FlavorGSS {
		return bare
	}
	d := xdr.NewDecoder(cred.Body)
	version, proc := d.Uint32(), d.Uint32()
	d.Uint32() // sequence number
	service := d.Uint32()
	d.Opaque(oncrpc.MaxAuthBody)
	switch {
	case d.Err() != nil || version != gssVersion || proc != gssData:
		return hidden
	case service == svcNone:
		return bare
	case service == svcIntegrity:
		return integrity
	default:
		return hidden
	}
}
