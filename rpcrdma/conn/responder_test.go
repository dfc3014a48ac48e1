package conn

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestResponderTranscripts(t *testing.T) {
	playAll(t, "responder", func() player { return new(responderPlayer) })
}

// responderPlayer plays transcripts on a Responder.
//
//	start [told= peer= said=0|1 inv=0|1 receives= KEY=VALUE...]   settings as in set
//	message HEADER [call=XID] [args=BYTES] [rpcvers=] [body=HEX] [answer=XID]
//	raw HEX
//	fetched XID [call=XID] [args=BYTES]    a long call's message
//	fetching XID
//	nomemory XID
//	reply XID stream=BYTES [item=POS:LEN]...
//	filled XID RESULT SIZE BYTES           so many bytes of a result of that size are final
//	sent XID
//	set send= min= inv= credits= least= policy= v2=off|on|required ext=0|1
//	version                                agreed on, or the lowest taken, and the limits of a Send
//	short N                                receives that are not to be had next
//	configured [takes=BYTES] [reads=N]     what the peer told by CCP
//	drain
//	notread                                the client makes no RDMA Reads
//	speak N                                calls in the other direction use version N
//	told
//	resized N                              so many of 10 receives are smaller than wanted
//	characteristics                        of both ends
//	exposed XID                            keys 1000, 1010, … for its chunks
//	noexposure XID
//	reclaim INDEX, unexposed INDEX         of exposures
type responderPlayer struct {
	r        *Responder
	settings settings.Settings
	recv     uint32
	calls    map[uint32]*Call
	short    int
	key      uint32 // of the last chunk exposed
}

func (p *responderPlayer) play(t *testing.T, verb string, args []string) []string {
	t.Helper()
	o := options(args)
	switch verb {
	case "start":
		p.settings, p.calls = settings.Default(), make(map[uint32]*Call)
		p.set(t, o)
		p.r = NewResponder(ResponderConfig{
			PeerReceive:     uint32(option(t, o, "peer", 4096)),
			ToldSend:        uint32(option(t, o, "told", 4096)),
			PeerSaid:        option(t, o, "said", 0) == 1,
			PeerInvalidates: option(t, o, "agreed", 1) == 1,
			CanInvalidate:   true,
			MaxTransfer:     uint32(option(t, o, "transfer", 1<<30)),
			MaxReceives:     option(t, o, "receives", settings.CreditsLimit+2),
			Settings:        &p.settings,
			Receive:         uint32(option(t, o, "receive", 4096)),
		})
		return p.show(p.r.Start(nil))
	case "message":
		h := parseHeader(t, args)
		return p.receive(h.Append(nil), rpcCall(t, o, h.XID))
	case "raw":
		b, err := hex.DecodeString(strings.Join(args, ""))
		must(t, err)
		return p.receive(b, nil)
	case "version":
		v, chosen := p.r.Version()
		return []string{fmt.Sprintf("version %d, chosen %v, sends %d of %d", v, chosen, p.r.SendLimit(), p.r.PeerReceive())}
	case "fetched":
		c := p.calls[uint32(number(t, args[0]))]
		return p.show(p.r.Fetched(c, p.memory(t, c, o), nil))
	case "fetching":
		c := p.calls[uint32(number(t, args[0]))]
		return p.show(p.r.Fetching(c, p.memory(t, c, o), nil))
	case "nomemory":
		return p.show(p.r.NoMemory(p.calls[uint32(number(t, args[0]))], nil))
	case "reply":
		var items []chunk.Item
		for _, it := range o["item"] {
			pos, n, _ := strings.Cut(it, ":")
			items = append(items, chunk.Item{Pos: number(t, pos), Len: number(t, n)})
		}
		return p.show(p.r.Reply(p.calls[uint32(number(t, args[0]))], option(t, o, "stream", 24), items, nil))
	case "filled":
		c := p.calls[uint32(number(t, args[0]))]
		return p.show(p.r.Filled(c, number(t, args[1]), number(t, args[2]), number(t, args[3]), nil))
	case "sent":
		p.r.Sent(p.calls[uint32(number(t, args[0]))])
		return nil
	case "set":
		p.set(t, o)
		s := p.settings
		return p.show(p.r.SetSettings(&s, nil))
	case "short":
		p.short = number(t, args[0])
		return nil
	case "configured":
		p.r.Configured(uint32(option(t, o, "takes", 4096)), uint32(option(t, o, "reads", 16)))
		return []string{fmt.Sprintf("sends %d", p.r.SendLimit())}
	case "notread":
		p.r.NotRead()
		return nil
	case "speak":
		p.r.Speak(uint32(number(t, args[0])))
		return nil
	case "resized":
		return p.show(p.r.Resized(number(t, args[0]), 10, nil))
	case "told":
		p.r.Told()
		return nil
	case "characteristics":
		return append(stateText(p.r.Characteristics(), p.r.SendLimit(), p.r.ReceiveSize()),
			fmt.Sprintf("invalidates %v, no calls to the client %v", p.r.Invalidates(), p.r.NoBackward()))
	case "drain":
		return p.show(p.r.Drain(nil))
	case "finish":
		return p.show(p.r.Finish(nil))
	case "exposed":
		return p.exposed(p.calls[uint32(number(t, args[0]))])
	case "noexposure":
		return p.show(p.r.NotExposed(p.calls[uint32(number(t, args[0]))], nil))
	case "reclaim":
		return p.show(p.r.Reclaim(p.r.exposures.all[number(t, args[0])], nil))
	case "unexposed":
		p.r.Unexposed(p.r.exposures.all[number(t, args[0])])
		return nil
	}
	t.Fatalf("transcript: %s", verb)
	return nil
}

func (p *responderPlayer) receive(header, body []byte) []string {
	recv := p.recv
	p.recv++
	return p.show(p.r.Receive(recv, append(header, body...), nil))
}

func (p *responderPlayer) set(t *testing.T, o map[string][]string) {
	s := &p.settings
	s.InlineSendMax = uint32(option(t, o, "send", int(s.InlineSendMax)))
	s.DDPMinChunk = uint32(option(t, o, "min", int(s.DDPMinChunk)))
	s.CreditsMax = uint32(option(t, o, "credits", int(s.CreditsMax)))
	s.CreditsMin = uint32(option(t, o, "least", int(s.CreditsMin)))
	s.CreditsPolicy = settings.Policy(option(t, o, "policy", int(s.CreditsPolicy)))
	s.RemoteInvalidationUse = option(t, o, "inv", 1) == 1
	setV2(t, s, o)
	setCharacteristics(t, s, o)
	setExtensions(t, s, o)
}

// rpcCall makes the RPC message of: call= args= rpcvers=, answer= or body=.
func rpcCall(t *testing.T, o map[string][]string, xid uint32) []byte {
	if b := o["body"]; len(b) > 0 {
		raw, err := hex.DecodeString(b[0])
		must(t, err)
		return raw
	}
	if a := o["answer"]; len(a) > 0 {
		return oncrpc.AppendAcceptedReply(nil, uint32(number(t, a[0])))
	}
	if len(o["call"]) == 0 && len(o["args"]) == 0 {
		return nil
	}
	c := oncrpc.Call{XID: uint32(option(t, o, "call", int(xid))), Program: 100003, Version: 3, Procedure: uint32(option(t, o, "proc", 0))}
	b := oncrpc.AppendCall(nil, &c)
	b[11] = byte(option(t, o, "rpcvers", 2))
	return append(b, make([]byte, option(t, o, "args", 0))...)
}

// memory makes what was fetched for a call.
func (p *responderPlayer) memory(t *testing.T, c *Call, o map[string][]string) [][]byte {
	var m [][]byte
	for i, ch := range c.Reads.Chunks {
		b := make([]byte, ch.Length)
		if i == 0 && c.Reads.Long() {
			copy(b, rpcCall(t, o, c.XID))
		}
		m = append(m, b)
	}
	return m
}

// show carries out what a transcript does not, and tells the rest.
func (p *responderPlayer) show(acts []Action) (lines []string) {
	for _, a := range acts {
		switch a := a.(type) {
		case Repost:
			lines = append(lines, fmt.Sprintf("repost %d", a.Recv))
		case FreeReceive:
			lines = append(lines, fmt.Sprintf("free %d", a.Recv))
		case PostReceives:
			n := a.N - min(p.short, a.N)
			p.short = 0
			p.r.Posted(a.N, n)
			lines = append(lines, fmt.Sprintf("post %d of %d", n, a.N))
		case Fetch:
			p.calls[a.Call.XID] = a.Call
			lines = append(lines, fmt.Sprintf("fetch %d", a.Call.XID))
			for _, f := range a.Call.Fetches {
				lines = append(lines, fmt.Sprintf("  read %d bytes from %d@%d to chunk %d + %d", f.Length, f.RKey, f.Addr, f.Chunk, f.Off))
			}
		case Deliver:
			p.calls[a.Call.XID] = a.Call
			lines = append(lines, deliverText(a.Call))
		case Write:
			lines = append(lines, writesText(a.Call.Ahead)...)
		case Send:
			p.calls[a.Call.XID] = a.Call
			lines = append(lines, sendText(a.Call)...)
		case Report:
			lines = append(lines, fmt.Sprintf("report: %v", a.Err))
		case Expose:
			p.calls[a.Call.XID] = a.Call
			lines = append(lines, exposeText(a.Call)...)
		case Unexpose:
			lines = append(lines, fmt.Sprintf("unexpose %d", a.Exposure.Index))
		case Disconnect:
			lines = append(lines, "disconnect")
		case Fail:
			lines = append(lines, fmt.Sprintf("fail: %v", a.Err))
		default:
			lines = append(lines, tellText(a)...)
		}
	}
	return lines
}

func deliverText(c *Call) string {
	if c.Denied != nil {
		return fmt.Sprintf("deliver %d: %v", c.XID, c.Denied)
	}
	s := fmt.Sprintf("deliver %d procedure %d, %d bytes of arguments", c.XID, c.RPC.Procedure, len(c.RPC.Args.Stream))
	if pad := c.RPC.Args.Padding; pad.Align != 0 {
		s += fmt.Sprintf(", opaques of %d padded to %d, from %d", pad.Thresh, pad.Align, pad.Base)
	}
	for _, it := range c.RPC.Args.Items {
		s += fmt.Sprintf(", item of %d at %d", len(it.Data), it.Pos)
	}
	return s
}

func sourceText(s chunk.Source) string {
	switch s {
	case chunk.Stream:
		return "stream"
	case chunk.Zeros:
		return "padding"
	}
	return fmt.Sprintf("item %d", s)
}

func writesText(all []chunk.Write) (lines []string) {
	for _, w := range all {
		lines = append(lines, fmt.Sprintf("  write %s + %d, %d bytes to %d@%d", sourceText(w.From), w.Off, w.Length, w.RKey, w.Addr))
	}
	return lines
}

func sendText(c *Call) (lines []string) {
	lines = writesText(c.Answer.Writes)
	s := "send " + formatHeader(c.Answer.Header)
	for _, p := range c.Answer.Inline {
		s += fmt.Sprintf("; %s + %d, %d bytes", sourceText(p.From), p.Off, p.Len)
	}
	s += moreText(c.Answer.More)
	if c.Answer.Invalidate {
		s += fmt.Sprintf("; invalidate %d", c.Answer.RKey)
	}
	return append(lines, s)
}
