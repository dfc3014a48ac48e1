package rpcrdma2

import "github.com/rdmad/rdmad/rpcrdma/xdr"

// XmtErrCode is the fault of a transmission (optx_err).
type XmtErrCode uint32

// The errors of transmissions.
const (
	BadHeaderType   XmtErrCode = 1 // BADHMT: another header type expected
	BadOptType      XmtErrCode = 2 // BADOMT: another optional operation expected
	BadContinuation XmtErrCode = 3 // BADCONT: nothing to continue
	BadSequence     XmtErrCode = 4 // BADSEQ: another transmission number expected
	BadXID          XmtErrCode = 5 // BADXID: another XID expected
	BadOffset       XmtErrCode = 6 // BADOFF: no such offset in the buffer segment
	BadTarget       XmtErrCode = 7 // BADTBSN: no such target buffer segment
	BadPayload      XmtErrCode = 8 // BADPL: payload length not within the transmission
)

// Transmission names a transmission (xms_id).
type Transmission struct {
	XID       uint32
	Direction Direction
	Number    uint32 // in its group
}

// XmtError reports that a transmission group was refused (opttype 8, optxmt_err).
type XmtError struct {
	Bad Transmission
	// Lead is an earlier transmission of the group, if HasLead.
	Lead    Transmission
	HasLead bool

	Code XmtErrCode
	// For BadHeaderType, BadOptType, BadSequence, BadXID.
	Expected uint32
	// For all but BadContinuation: the actual value.
	Actual uint32
	// For BadOffset, BadTarget, BadPayload: the valid range. A value inside the range is
	// not correctly aligned.
	Min, Max uint32
}

// Group returns a transmission of the refused group. Bad may be part of another message
// that came before the group was complete.
func (o *XmtError) Group() Transmission {
	if o.HasLead {
		return o.Lead
	}
	return o.Bad
}

// Type is OptXmtError.
func (*XmtError) Type() OptType { return OptXmtError }

// Append implements Body.
func (o *XmtError) Append(dst []byte) []byte {
	dst = o.Bad.append(dst)
	dst = xdr.AppendBool(dst, o.HasLead)
	if o.HasLead {
		dst = o.Lead.append(dst)
	}
	dst = xdr.AppendUint32(dst, uint32(o.Code))
	switch o.Code {
	case BadHeaderType, BadOptType, BadSequence, BadXID:
		dst = xdr.AppendUint32s(dst, o.Expected, o.Actual)
	case BadOffset, BadTarget, BadPayload:
		dst = xdr.AppendUint32s(dst, o.Actual, o.Min, o.Max)
	}
	return dst
}

// Decode implements Body.
func (o *XmtError) Decode(b []byte) error {
	d := xdr.NewDecoder(b)
	*o = XmtError{Bad: decodeTransmission(&d)}
	if o.HasLead = d.Bool(); o.HasLead {
		o.Lead = decodeTransmission(&d)
	}
	o.Code = XmtErrCode(d.Uint32())
	switch o.Code {
	case BadHeaderType, BadOptType, BadSequence, BadXID:
		o.Expected, o.Actual = d.Uint32(), d.Uint32()
	case BadContinuation:
	case BadOffset, BadTarget, BadPayload:
		o.Actual, o.Min, o.Max = d.Uint32(), d.Uint32(), d.Uint32()
	default:
		d.Fail(errCode)
	}
	return finish(&d)
}

func (t *Transmission) append(dst []byte) []byte {
	return xdr.AppendUint32s(dst, t.XID, uint32(t.Direction), t.Number)
}

func decodeTransmission(d *xdr.Decoder) Transmission {
	return Transmission{XID: d.Uint32(), Direction: decodeDirection(d), Number: d.Uint32()}
}
