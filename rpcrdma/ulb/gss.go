package ulb

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// protection is the protection of the body of a call and its reply by RPCSEC_GSS.
type protection uint8

const (
	// bare: arguments and results are unprotected.
	bare protection = iota
	// integrity: the body follows a length and a sequence number, and a checksum over both
	// follows it (RFC 2203 §5.3.2.2).
	integrity
	// hidden: encrypted, not of the program (context creation), or not understood.
	hidden
)

// RPCSEC_GSS, RFC 2203 §5.2.
const (
	gssVersion   = 1
	gssData      = 0 // rpc_gss_proc_t
	svcNone      = 1 // rpc_gss_service_t
	svcIntegrity = 2

	// gssBodyHead is the size of the length and the sequence number before an
	// integrity-protected body, gssBodyTail of the largest checksum after it.
	gssBodyHead = 8
	gssBodyTail = 4 + oncrpc.MaxAuthBody
)

// protectionOf reads the credential. Only a bare body is ever reduced, because RFC 8166
// §3.4.1 removes items from the stream that the checksum covers. With service none, the
// stream is the program's own, and its items are as eligible as with any other flavor.
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
