package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// Backward is which backward requests a peer accepts (xchbrs).
type Backward uint32

// The levels of Backward Request Support.
const (
	BackwardNone    Backward = 0
	BackwardInline  Backward = 1
	BackwardGeneral Backward = 2 // with chunks
)

// RTR is the set of transmission operations that a peer accepts (xchrrtrs).
type RTR uint32

// The bits of RTR Support.
const (
	RTRRequest  RTR = 1 // XMTREQ
	RTRResponse RTR = 2 // XMTRESP
	RTRContinue RTR = 4 // XMTCONT
)

// DefaultReceiveSize is the Send size that every version-2 receiver accepts, in bytes.
const DefaultReceiveSize = 4096

// Values are a peer's characteristics.
type Values struct {
	ReceiveSize    uint32 // bytes
	Invalidation   bool   // its STags may be invalidated
	Backward       Backward
	RTR            RTR
	Buffer         Buffer // without groups: one plain segment of ReceiveSize
	RequestReceive uint32 // transmissions of one request that it accepts
	ResponseSend   uint32 // transmissions of one response that it makes
}

// DefaultValues returns the characteristics of a peer that announced nothing.
func DefaultValues() Values {
	return Values{ReceiveSize: DefaultReceiveSize, Backward: BackwardInline, RequestReceive: 1, ResponseSend: 1}
}

// Set stores a value that the peer announced. It skips unknown characteristics; known is
// then false. An error is ErrMalformed, and changes no known value.
func (v *Values) Set(c Characteristic) (known bool, err error) {
	if len(c.Data) == 0 {
		def := DefaultValues()
		c = def.Encode(c.ID)
	}
	d := xdr.NewDecoder(c.Data)
	switch c.ID {
	case CharReceiveSize:
		return true, setWord(&d, &v.ReceiveSize)
	case CharInvalidation:
		on := d.Bool()
		if err = finish(&d); err == nil {
			v.Invalidation = on
		}
	case CharBackward:
		level := Backward(d.Uint32())
		if level > BackwardGeneral {
			d.Fail(errValue)
		}
		if err = finish(&d); err == nil {
			v.Backward = level
		}
	case CharRTR:
		err = setWord(&d, (*uint32)(&v.RTR))
	case CharReceiveBuffer:
		err = v.setBuffer(c.Data)
	case CharRequestReceive:
		err = setWord(&d, &v.RequestReceive)
	case CharResponseSend:
		err = setWord(&d, &v.ResponseSend)
	default:
		return false, nil
	}
	return true, err
}

func setWord(d *xdr.Decoder, v *uint32) error {
	w := d.Uint32()
	err := finish(d)
	if err == nil {
		*v = w
	}
	return err
}

func (v *Values) setBuffer(data []byte) error {
	var b Buffer // values change seldom
	if len(data) == 0 {
		v.Buffer = b
		return nil
	}
	if err := b.Decode(data); err != nil {
		return err
	}
	v.Buffer = b
	return nil
}

// Encode returns characteristic id with its value in v.
func (v *Values) Encode(id CharID) Characteristic {
	c := Characteristic{ID: id}
	switch id {
	case CharReceiveSize:
		c.Data = xdr.AppendUint32(nil, v.ReceiveSize)
	case CharInvalidation:
		c.Data = xdr.AppendBool(nil, v.Invalidation)
	case CharBackward:
		c.Data = xdr.AppendUint32(nil, uint32(v.Backward))
	case CharRTR:
		c.Data = xdr.AppendUint32(nil, uint32(v.RTR))
	case CharReceiveBuffer:
		if len(v.Buffer.Groups) > 0 {
			c.Data = v.Buffer.Append(nil)
		}
	case CharRequestReceive:
		c.Data = xdr.AppendUint32(nil, v.RequestReceive)
	case CharResponseSend:
		c.Data = xdr.AppendUint32(nil, v.ResponseSend)
	}
	return c
}
