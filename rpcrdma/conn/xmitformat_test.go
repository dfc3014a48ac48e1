package conn

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// formatOption is the rest of the text of an Optional header; that of one that
// is no transmission is in hexadecimal.
func formatOption(h *Header) string {
	var (
		req  rpcrdma2.XmtReq
		resp rpcrdma2.XmtResp
		cont rpcrdma2.XmtCont
		bad  rpcrdma2.XmtError
	)
	if s := characteristicsText(&h.Header); s != "" {
		return s
	}
	switch {
	case h.Option == rpcrdma2.OptXmtReq && req.Decode(h.Info) == nil:
		s := fmt.Sprintf(" XMTREQ count=%d rsbuf=%d pslen=%d", req.Count, req.ReceiveBuffers, req.PayloadLength) + formatItems(req.Items)
		for _, set := range req.Results {
			for _, d := range set.Items {
				s += fmt.Sprintf(" result=%d-%d/%d/min%d/%s", set.Begin, set.End, d.Place, d.MinLength, formatChunk(rpcrdma1.WriteChunk(d.Segments)))
			}
		}
		if req.HasReply {
			s += " reply=" + formatChunk(req.Reply)
		}
		return s
	case h.Option == rpcrdma2.OptXmtResp && resp.Decode(h.Info) == nil:
		return fmt.Sprintf(" XMTRESP count=%d pslen=%d", resp.Count, resp.PayloadLength) + formatItems(resp.Items)
	case h.Option == rpcrdma2.OptXmtCont && cont.Decode(h.Info) == nil:
		return fmt.Sprintf(" XMTCONT xnum=%d itype=%d pslen=%d", cont.Number, cont.Initial, cont.PayloadLength)
	case h.Option == rpcrdma2.OptXmtError && bad.Decode(h.Info) == nil:
		s := fmt.Sprintf(" XMTERR bad=%s", formatTransmission(bad.Bad))
		if bad.HasLead {
			s += " lead=" + formatTransmission(bad.Lead)
		}
		switch bad.Code {
		case rpcrdma2.BadContinuation:
		case rpcrdma2.BadOffset, rpcrdma2.BadTarget, rpcrdma2.BadPayload:
			return s + fmt.Sprintf(" code=%d value=%d range=%d-%d", bad.Code, bad.Actual, bad.Min, bad.Max)
		default:
			return s + fmt.Sprintf(" code=%d expected=%d actual=%d", bad.Code, bad.Expected, bad.Actual)
		}
		return s + fmt.Sprintf(" code=%d", bad.Code)
	}
	return fmt.Sprintf(" opt=%d info=%x", h.Option, h.Info)
}

func formatItems(items []rpcrdma2.Item) string {
	var b strings.Builder
	for _, it := range items {
		fmt.Fprintf(&b, " item=%d:%d/%d", it.Disp, it.Length, it.Place)
		if it.Place == rpcrdma2.ExplicitRDMA {
			fmt.Fprintf(&b, "/%s", formatChunk(rpcrdma1.WriteChunk(it.Segments)))
		}
	}
	return b.String()
}

func formatTransmission(t rpcrdma2.Transmission) string {
	return fmt.Sprintf("%d/%s/%d", t.XID, []string{"call", "reply"}[t.Direction], t.Number)
}
