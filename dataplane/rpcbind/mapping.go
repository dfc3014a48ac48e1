package rpcbind

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// mapping is an entry of rpcbind (struct rpcb, RFC 1833 §2.1).
type mapping struct {
	program uint32
	version uint32
	netid   string
	address string // universal
	owner   string // only a hint in a call, because rpcbind determines it itself
}

// errTrailing means that bytes follow the results.
var errTrailing = errors.New("rpcbind: bytes after the results")

// appendMapping appends the arguments of SET and UNSET.
func appendMapping(dst []byte, m *mapping) []byte {
	dst = xdr.AppendUint32(dst, m.program)
	dst = xdr.AppendUint32(dst, m.version)
	dst = xdr.AppendString(dst, m.netid)
	dst = xdr.AppendString(dst, m.address)
	return xdr.AppendString(dst, m.owner)
}

// decodeMapping decodes a mapping. Any user may register texts of any length, so only the
// record limits them.
func decodeMapping(d *xdr.Decoder) mapping {
	return mapping{
		program: d.Uint32(),
		version: d.Uint32(),
		netid:   d.String(maxRecord),
		address: d.String(maxRecord),
		owner:   d.String(maxRecord),
	}
}

// decodeBool decodes the results of SET and UNSET.
func decodeBool(b []byte) (bool, error) {
	d := xdr.NewDecoder(b)
	v := d.Bool()
	return v, ended(&d)
}

// decodeList decodes the results of DUMP (rpcblist_ptr): mappings, each after a word that
// says that there is one more.
func decodeList(b []byte) ([]mapping, error) {
	d := xdr.NewDecoder(b)
	var list []mapping
	for d.Bool() {
		m := decodeMapping(&d)
		if d.Err() != nil {
			break
		}
		list = append(list, m)
	}
	if err := ended(&d); err != nil {
		return nil, err
	}
	return list, nil
}

// ended returns the decoder's error, or errTrailing if bytes are left.
func ended(d *xdr.Decoder) error {
	if d.Err() == nil && d.Len() != 0 {
		return errTrailing
	}
	return d.Err()
}
