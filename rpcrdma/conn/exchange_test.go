package conn

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestExchangeTranscripts: the exchanges of RFC 5666 §3.8 and §5 between both
// roles, each event with the actions that it leads to.
func TestExchangeTranscripts(t *testing.T) {
	playAll(t, "exchange", func() player { return new(exchangePlayer) })
}

// exchangePlayer plays transcripts on a requester and a responder.
//
//	start [min=BYTES] [use=0|1] [msgp=0|1] [reads=0|1] [v2=off|on|required [server=off|on|required] [xmit=0|1]]
//	call stream=BYTES [item=POS:LEN]... [most=BYTES] reply=BYTES [limit=BYTES]... [result=BYTES]... [short=1] [expect=BYTES]
//
// limit is the largest size of a result, most the largest of the reply; they
// are what it has if they are not given. With xmit=1 there is continuation, too. With short the requester expects
// nothing but a header, with expect so many bytes of the reply.
type exchangePlayer struct {
	p     *pair
	lines []string
}

func (e *exchangePlayer) play(t *testing.T, verb string, args []string) []string {
	t.Helper()
	e.lines = nil
	o := options(args)
	switch verb {
	case "start":
		s := settings.Default()
		s.CreditsMax = 8
		s.DDPMinChunk = uint32(option(t, o, "min", int(s.DDPMinChunk)))
		s.RemoteInvalidationUse = option(t, o, "use", 1) == 1
		setExtensions(t, &s, o)
		client, server := s, s
		setV2(t, &client, o)
		if v, given := o["server"]; given {
			o["v2"] = v
		}
		setV2(t, &server, o)
		e.p = newPair(t, client, server)
		e.p.note = func(format string, args ...any) { e.lines = append(e.lines, fmt.Sprintf(format, args...)) }
	case "call":
		k := &pairCall{out: &Outgoing{StreamLen: option(t, o, "stream", 40)}, reply: option(t, o, "reply", 24)}
		k.most, k.short, k.expect = option(t, o, "most", 0), option(t, o, "short", 0) == 1, option(t, o, "expect", 0)
		for _, it := range o["item"] {
			pos, n, _ := strings.Cut(it, ":")
			k.out.Items = append(k.out.Items, chunk.Item{Pos: number(t, pos), Len: number(t, n)})
		}
		for _, n := range o["result"] {
			k.results = append(k.results, number(t, n))
		}
		for _, n := range o["limit"] {
			k.limits = append(k.limits, number(t, n))
		}
		e.p.call(k)
		e.p.finish(first)
	default:
		t.Fatalf("transcript: %s", verb)
	}
	return e.lines
}
