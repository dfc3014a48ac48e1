package rpcrdma2

import (
	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// drawHeader draws a header of any type.
func drawHeader(t *rapid.T) Header {
	h := Header{Header: rpcrdma1.Header{
		XID:     word(t, "xid"),
		Version: Version,
		Credits: word(t, "credits"),
		Proc:    rapid.SampledFrom([]rpcrdma1.Proc{Msg, NoMsg, Error, Optional}).Draw(t, "proc"),
	}}
	if h.Proc == Error {
		h.Err = rapid.SampledFrom([]rpcrdma1.ErrCode{ErrVers, ErrBadHeader, ErrInvalOption}).Draw(t, "code")
		if h.Err == ErrVers {
			h.Low, h.High = word(t, "low"), word(t, "high")
		}
		return h
	}
	h.Direction = Direction(rapid.IntRange(0, 1).Draw(t, "direction"))
	if h.Proc == Optional {
		h.Option = OptType(word(t, "option"))
		h.Info = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "info")
		return h
	}
	h.Reads = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ReadSegment {
		return ReadSegment{Position: word(t, "position"), Segment: segment(t)}
	}), 0, 4).Draw(t, "reads")
	h.Writes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) WriteChunk { return segments(t, "write") }), 0, 4).Draw(t, "writes")
	if h.HasReply = rapid.Bool().Draw(t, "has reply"); h.HasReply {
		h.Reply = segments(t, "reply")
	}
	return h
}

func word(t *rapid.T, name string) uint32 { return rapid.Uint32().Draw(t, name) }

func segment(t *rapid.T) Segment {
	return Segment{Handle: word(t, "handle"), Length: word(t, "length"), Offset: rapid.Uint64().Draw(t, "offset")}
}

func segments(t *rapid.T, name string) []Segment {
	return rapid.SliceOfN(rapid.Custom(segment), 0, 4).Draw(t, name)
}

// drawBody draws the body of an operation.
func drawBody(t *rapid.T, opt OptType) Body {
	switch opt {
	case OptInit:
		return &Init{Start: set(t), NoChange: subset(t, "no change")}
	case OptRequest:
		return &Request{Want: set(t)}
	case OptRespond:
		return &Respond{Done: subset(t, "done"), Rejected: subset(t, "rejected"), Other: set(t)}
	case OptUpdate:
		return &Update{Now: set(t)}
	case OptXmtReq:
		o := &XmtReq{
			Items: items(t), Results: rapid.SliceOfN(rapid.Custom(resultSet), 0, 3).Draw(t, "results"),
			Count: word(t, "count"), ReceiveBuffers: word(t, "rsbuf"), PayloadLength: word(t, "pslen"),
		}
		if o.HasReply = rapid.Bool().Draw(t, "has reply"); o.HasReply {
			o.Reply = segments(t, "reply")
		}
		return o
	case OptXmtResp:
		return &XmtResp{Items: items(t), Count: word(t, "count"), PayloadLength: word(t, "pslen")}
	case OptXmtCont:
		return &XmtCont{Number: word(t, "xnum"), Initial: OptType(word(t, "itype")), PayloadLength: word(t, "pslen")}
	default:
		return xmtError(t)
	}
}

func set(t *rapid.T) Set {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Characteristic {
		return Characteristic{ID: CharID(word(t, "which")), Data: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data")}
	}), 0, 5).Draw(t, "set")
}

func subset(t *rapid.T, name string) Subset {
	return rapid.SliceOfN(rapid.Uint32(), 0, MaxSubsetWords).Draw(t, name)
}

func items(t *rapid.T) []Item {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
		it := Item{
			Disp: word(t, "disp"), Length: word(t, "length"),
			Place: rapid.SampledFrom([]Placement{ExplicitRDMA, TargetBuffer, TooShort, NoItem}).Draw(t, "place"),
		}
		switch it.Place {
		case ExplicitRDMA:
			it.Segments = segments(t, "segments")
		case TargetBuffer:
			it.Offset, it.Targets = word(t, "offset"), rapid.SliceOfN(rapid.Uint32(), 0, 4).Draw(t, "targets")
		}
		return it
	}), 0, 4).Draw(t, "items")
}

func resultSet(t *rapid.T) ResultSet {
	return ResultSet{Begin: word(t, "begin"), End: word(t, "end"), Items: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ResultItem {
		it := ResultItem{
			MinLength: word(t, "minlen"),
			Place:     rapid.SampledFrom([]Placement{ExplicitRDMA, TargetBuffer, Choice, BySize}).Draw(t, "place"),
		}
		if it.Place == BySize {
			it.Threshold = word(t, "threshold")
		}
		if it.Place != TargetBuffer {
			it.Segments = segments(t, "segments")
		}
		return it
	}), 0, 4).Draw(t, "items")}
}

func xmtError(t *rapid.T) *XmtError {
	o := &XmtError{Bad: transmission(t), Code: XmtErrCode(rapid.Uint32Range(1, 8).Draw(t, "code"))}
	if o.HasLead = rapid.Bool().Draw(t, "has lead"); o.HasLead {
		o.Lead = transmission(t)
	}
	switch {
	case o.Code >= BadOffset:
		o.Actual, o.Min, o.Max = word(t, "value"), word(t, "min"), word(t, "max")
	case o.Code != BadContinuation:
		o.Expected, o.Actual = word(t, "expected"), word(t, "actual")
	}
	return o
}

func transmission(t *rapid.T) Transmission {
	return Transmission{XID: word(t, "xid"), Direction: Direction(rapid.IntRange(0, 1).Draw(t, "dir")), Number: word(t, "seq")}
}
