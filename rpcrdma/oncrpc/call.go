package oncrpc

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// DecodeCall decodes the call header at the start of msg into c and returns its length: the
// arguments are msg[n:]. Cred and Verf alias msg. Args and Peer stay unchanged.
//
// For another RPC version, and for a credential or verifier that is too long, the error is
// a *DeniedError, to be sent under c.XID. It is ErrMalformed if msg is not a call or ends
// within the header. After an error only c.XID may be used, and only with a *DeniedError.
func DecodeCall(msg []byte, c *Call) (n int, err error) {
	return DecodePaddedCall(msg, &Padding{}, c)
}

// DecodePaddedCall is DecodeCall for a message with padding.
func DecodePaddedCall(msg []byte, pad *Padding, c *Call) (n int, err error) {
	xid, mtype, ok := MessageType(msg)
	if !ok || mtype != MsgCall {
		return 0, ErrMalformed
	}
	d := xdr.NewDecoder(msg[peekSize:])
	c.XID = xid
	version := d.Uint32()
	if d.Err() == nil && version != RPCVersion {
		return 0, errRPCMismatch
	}
	c.Program = d.Uint32()
	c.Version = d.Uint32()
	c.Procedure = d.Uint32()
	c.Cred = decodeAuth(&d, pad, errBadCred)
	c.Verf = decodeAuth(&d, pad, errBadVerf)
	if d.Err() != nil {
		return 0, headerError(d.Err())
	}
	return peekSize + d.Offset(), nil
}

// decodeAuth decodes an opaque_auth. It fails with tooLong if the body is larger than
// MaxAuthBody.
func decodeAuth(d *xdr.Decoder, pad *Padding, tooLong error) Auth {
	flavor := d.Uint32()
	n := d.Uint32()
	if n > MaxAuthBody {
		d.Fail(tooLong)
		return Auth{}
	}
	d.Fixed(pad.Before(peekSize+d.Offset(), int(n)))
	return Auth{Flavor: flavor, Body: d.Fixed(int(n))}
}

// headerError returns a *DeniedError unchanged, and ErrMalformed for any other error.
func headerError(err error) error {
	if _, ok := errors.AsType[*DeniedError](err); ok {
		return err
	}
	return ErrMalformed
}

// AppendCall appends the call header of c: everything except the arguments. The bodies of
// Cred and Verf must be at most MaxAuthBody bytes.
func AppendCall(dst []byte, c *Call) []byte {
	dst = xdr.AppendUint32(dst, c.XID)
	dst = xdr.AppendUint32(dst, uint32(MsgCall))
	dst = xdr.AppendUint32(dst, RPCVersion)
	dst = xdr.AppendUint32(dst, c.Program)
	dst = xdr.AppendUint32(dst, c.Version)
	dst = xdr.AppendUint32(dst, c.Procedure)
	dst = appendAuth(dst, c.Cred)
	return appendAuth(dst, c.Verf)
}

func appendAuth(dst []byte, a Auth) []byte {
	dst = xdr.AppendUint32(dst, a.Flavor)
	return xdr.AppendOpaque(dst, a.Body)
}
