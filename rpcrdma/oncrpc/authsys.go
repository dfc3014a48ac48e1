package oncrpc

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Limits of an AUTH_SYS credential (RFC 5531 appendix A).
const (
	MaxMachineName = 255
	MaxGIDs        = 16
)

// AuthSys is the body of an AUTH_SYS credential: the identity that the caller claims.
type AuthSys struct {
	Stamp       uint32
	MachineName []byte
	UID, GID    uint32
	GIDs        []uint32 // at most MaxGIDs
}

// Decode decodes the body of a credential. MachineName aliases it; the storage
// of GIDs is reused. The error is the *DeniedError that a handler returns.
func (a *AuthSys) Decode(body []byte) error {
	d := xdr.NewDecoder(body)
	a.Stamp = d.Uint32()
	a.MachineName = d.Opaque(MaxMachineName)
	a.UID = d.Uint32()
	a.GID = d.Uint32()
	n := d.Count(MaxGIDs, xdr.Unit)
	a.GIDs = a.GIDs[:0]
	for range n {
		a.GIDs = append(a.GIDs, d.Uint32())
	}
	if d.Err() != nil {
		return errBadCred
	}
	return nil
}

// Append appends the encoded body.
func (a *AuthSys) Append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, a.Stamp)
	dst = xdr.AppendOpaque(dst, a.MachineName)
	dst = xdr.AppendUint32s(dst, a.UID, a.GID, uint32(len(a.GIDs)))
	return xdr.AppendUint32s(dst, a.GIDs...)
}
