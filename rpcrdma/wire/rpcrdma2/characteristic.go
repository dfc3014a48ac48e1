package rpcrdma2

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// CharID is a transport characteristic (xcharid).
type CharID uint32

// The characteristics.
const (
	CharReceiveSize     CharID = 1 // Receive Buffer Size: u32, bytes
	CharInvalidation    CharID = 2 // Requester Remote Invalidation: bool
	CharBackward        CharID = 3 // Backward Request Support: Backward
	CharRTR             CharID = 4 // RTR Support: RTR
	CharReceiveBuffer   CharID = 5 // Receive Buffer Structure: Buffer
	CharRequestReceive  CharID = 6 // Request Transmission Receive Limit: u32, transmissions
	CharResponseSend    CharID = 7 // Response Transmission Send Limit: u32, transmissions
	CharExperimentalLow CharID = 0xFFFFFF00
)

// Characteristic is one characteristic with its encoded value (xcharval). Empty Data means
// the default. After decoding, Data aliases the message.
type Characteristic struct {
	ID   CharID
	Data []byte
}

// Set is a list of characteristics (xcharset). Subsets refer to its order.
type Set []Characteristic

// Has reports whether a characteristic is in the set.
func (s Set) Has(id CharID) bool {
	return slices.ContainsFunc(s, func(c Characteristic) bool { return c.ID == id })
}

func (s Set) append(dst []byte) []byte {
	dst = xdr.AppendUint32(dst, uint32(len(s)))
	for i := range s {
		dst = xdr.AppendUint32(dst, uint32(s[i].ID))
		dst = xdr.AppendOpaque(dst, s[i].Data)
	}
	return dst
}

func (s Set) decode(d *xdr.Decoder) Set {
	s = s[:0]
	for range d.Count(MaxCharacteristics, minCharacteristic) {
		s = append(s, Characteristic{ID: CharID(d.Uint32()), Data: d.Opaque(MaxInfo)})
	}
	return s
}

// Subset selects elements of a Set (xcharsubset): element N is bit N mod 32 of word N div
// 32.
type Subset []uint32

// Has reports whether element n is in the subset.
func (s Subset) Has(n int) bool {
	return n/32 < len(s) && s[n/32]&(1<<(n%32)) != 0
}

// Add returns the subset with element n, which must be below MaxCharacteristics.
func (s Subset) Add(n int) Subset {
	for len(s) <= n/32 {
		s = append(s, 0)
	}
	s[n/32] |= 1 << (n % 32)
	return s
}

// Within reports whether all elements are below n.
func (s Subset) Within(n int) bool {
	for i, w := range s {
		if from := max(n-32*i, 0); from < 32 && w>>from != 0 {
			return false
		}
	}
	return true
}
