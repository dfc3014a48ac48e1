package conn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestRequesterTranscripts(t *testing.T) {
	playAll(t, "requester", func() player { return new(requesterPlayer) })
}

// requesterPlayer plays transcripts on a Requester.
//
//	start [xid= receive= told= peer= makes= KEY=VALUE...]    settings as in set
//	call NAME stream=BYTES [item=POS:LEN]... [max=BYTES] [result=BYTES]... [again=XID]
//	message HEADER [answer=XID] [call=XID] [inv=RKEY]
//	fenced NAME
//	cancel NAME
//	launch NAME                a call whose Ready was seen
//	fetched NAME               all RDMA Reads of its reply, also of one given up
//	configured [takes=BYTES] [align=BYTES] [reads=N] [most=BYTES]    what the peer answered by CCP
//	lost REASON
//	set send= min= credits= v2=off|on|required ext=0|1
//	agreement                  about the version
//	greet, told
//	resized N                  so many of 10 receives are smaller than wanted
//	characteristics            of both ends
//
// A call is planned and begun; when it may go it is launched at once, with
// keys 10, 20, 30, … for its windows.
type requesterPlayer struct {
	r        *Requester
	settings settings.Settings
	calls    map[string]*Outgoing
	names    map[*Outgoing]string
	key      uint32
	recv     uint32
	readings map[string]*Reading
}

func (p *requesterPlayer) play(t *testing.T, verb string, args []string) []string {
	t.Helper()
	o := options(args)
	switch verb {
	case "start":
		p.settings = settings.Default()
		p.calls, p.names = make(map[string]*Outgoing), make(map[*Outgoing]string)
		p.readings = make(map[string]*Reading)
		p.set(t, o)
		p.r = NewRequester(RequesterConfig{
			Receive: uint32(option(t, o, "receive", 4096)), ToldSend: uint32(option(t, o, "told", 4096)), FirstXID: uint32(option(t, o, "xid", 0)), MaxTransfer: uint32(option(t, o, "transfer", 1<<30)), MaxReceives: settings.CreditsLimit + 2, Settings: &p.settings,
			Only1: option(t, o, "only1", 0) == 1, Revocable: option(t, o, "revocable", 1) == 1, Serves: option(t, o, "serves", 1) == 1,
		})
		acts := p.r.Start(nil)
		p.r.Connected(uint32(option(t, o, "peer", 4096)), uint32(option(t, o, "makes", 4096)))
		if option(t, o, "ord", 1) > 0 {
			p.r.MayRead()
		}
		if option(t, o, "ird", 1) == 0 {
			p.r.NotRead()
		}
		return p.show(acts)
	case "call":
		return p.call(t, args[0], o)
	case "message":
		h := parseHeader(t, args)
		var inv Invalidation
		if k := option(t, o, "inv", 0); k != 0 {
			inv = Invalidation{Did: true, RKey: uint32(k)}
		}
		p.recv++
		return p.show(p.r.Receive(p.recv-1, append(h.Append(nil), rpcCall(t, o, h.XID)...), inv, nil))
	case "agreement":
		state := map[Agreement]string{Agreed: "agreed", Offered: "offered", Refused: "refused"}[p.r.negotiation.state]
		version, _ := p.r.Version()
		return []string{fmt.Sprintf("version %d %s, unsure %v, sends %d, expects %d", version, state, p.r.Unsure(), p.r.SendLimit(), p.r.ReplyLimit())}
	case "fenced":
		return p.show(p.r.Fenced(p.calls[args[0]], nil))
	case "fetched":
		return p.show(p.r.ReplyFetched(p.readings[args[0]], nil))
	case "cancel":
		return p.show(p.r.Cancel(p.calls[args[0]], nil))
	case "launch":
		return p.launch(p.calls[args[0]])
	case "configured":
		p.r.Configured(uint32(option(t, o, "takes", 4096)), uint32(option(t, o, "align", 0)),
			uint32(option(t, o, "reads", 16)), uint32(option(t, o, "most", settings.InlineMax)))
		return []string{fmt.Sprintf("sends %d", p.r.SendLimit())}
	case "greet":
		return p.show(p.r.Greet(nil))
	case "resized":
		return p.show(p.r.Resized(number(t, args[0]), 10, nil))
	case "told":
		p.r.Told()
		return nil
	case "characteristics":
		return stateText(p.r.Characteristics(), p.r.SendLimit(), p.r.ReplyLimit())
	case "lost":
		return p.show(p.r.Lost(errors.New(strings.Join(args, " ")), nil))
	case "set":
		p.set(t, o)
		s := p.settings
		return p.show(p.r.SetSettings(&s, nil))
	}
	t.Fatalf("transcript: %s", verb)
	return nil
}

func (p *requesterPlayer) set(t *testing.T, o map[string][]string) {
	s := &p.settings
	s.InlineSendMax = uint32(option(t, o, "send", int(s.InlineSendMax)))
	s.DDPMinChunk = uint32(option(t, o, "min", int(s.DDPMinChunk)))
	s.CreditsMax = uint32(option(t, o, "credits", int(s.CreditsMax)))
	setV2(t, s, o)
	setCharacteristics(t, s, o)
	setExtensions(t, s, o)
}

func (p *requesterPlayer) call(t *testing.T, name string, opts map[string][]string) []string {
	o := &Outgoing{StreamLen: option(t, opts, "stream", 40), MaxReply: option(t, opts, "max", 24)}
	for _, it := range opts["item"] {
		pos, n, _ := strings.Cut(it, ":")
		o.Items = append(o.Items, chunk.Item{Pos: number(t, pos), Len: number(t, n)})
	}
	for _, n := range opts["result"] {
		o.Results = append(o.Results, number(t, n))
	}
	if x := opts["again"]; len(x) > 0 {
		o.XID, o.Again = uint32(number(t, x[0])), true
	}
	return p.begin(name, o)
}

// begin plans a call and sends it, if it may go.
func (p *requesterPlayer) begin(name string, o *Outgoing) []string {
	p.calls[name], p.names[o] = o, name
	if err := p.r.Plan(o); err != nil {
		return []string{err.Error()}
	}
	now, err := p.r.Begin(o)
	if err != nil {
		return []string{err.Error()}
	}
	if !now {
		return []string{name + " waits"}
	}
	return p.launch(o)
}

func (p *requesterPlayer) launch(o *Outgoing) (lines []string) {
	acts, ok := p.r.Launch(o, nil)
	if !ok {
		return p.show(acts)
	}
	uses := map[Use]string{ReadCall: "reads the call", ReadItem: "reads item", WriteResult: "writes result", WriteReply: "writes the reply"}
	for i := range o.Windows {
		w := &o.Windows[i]
		p.key += 10
		w.RKey, w.Addr = p.key, uint64(p.key)*100
		s := fmt.Sprintf("expose %d: peer %s %d, %d bytes", w.RKey, uses[w.Use], w.Index, w.Length)
		if w.Off > 0 {
			s += fmt.Sprintf(" from %d", w.Off)
		}
		lines = append(lines, s)
	}
	o.Build()
	s := "send " + formatHeader(&o.Header)
	for _, pc := range o.Inline {
		s += fmt.Sprintf("; %s + %d, %d bytes", sourceText(pc.From), pc.Off, pc.Len)
	}
	return append(lines, s)
}

func (p *requesterPlayer) show(acts []Action) (lines []string) {
	for _, a := range acts {
		switch a := a.(type) {
		case Repost:
			lines = append(lines, fmt.Sprintf("repost %d", a.Recv))
		case FreeReceive:
			lines = append(lines, fmt.Sprintf("free %d", a.Recv))
		case PostReceives:
			lines = append(lines, fmt.Sprintf("post %d", a.N))
			lines = append(lines, p.show(p.r.Posted(a.N, a.N, nil))...)
		case Ready:
			lines = append(lines, p.names[a.Out]+" is ready")
		case Take:
			lines = append(lines, fmt.Sprintf("take %d bytes for %s%s", partsLength(a.Out), p.names[a.Out], paddingText(a.Out)))
		case Fence:
			s := "fence " + p.names[a.Out] + ":"
			for _, w := range a.Out.Windows {
				if !w.Revoked {
					s += fmt.Sprintf(" %d", w.RKey)
				}
			}
			lines = append(lines, s)
		case FetchReply:
			name := p.names[a.Reading.out]
			p.readings[name] = a.Reading
			lines = append(lines, readingText(name, a.Reading)...)
		case SendDone:
			h := p.r.Done(a.XID)
			lines = append(lines, "send "+formatHeader(&h))
		case Complete:
			lines = append(lines, p.outcome(a.Out))
		case Fail:
			lines = append(lines, fmt.Sprintf("fail: %v", a.Err))
		default:
			lines = append(lines, tellText(a)...)
		}
	}
	return lines
}

// partsLength is the length of a reply that came inline.
func partsLength(o *Outgoing) (n int) {
	for _, p := range o.Parts {
		n += len(p)
	}
	return n
}

func (p *requesterPlayer) outcome(o *Outgoing) string {
	s := p.names[o] + " is complete"
	switch {
	case o.Err != nil:
		return fmt.Sprintf("%s: %v", s, o.Err)
	case o.Read != nil:
		s += ", reply read"
	case o.Long > 0:
		s += fmt.Sprintf(", reply of %d bytes in its chunk", o.Long)
	}
	for i, n := range o.Written {
		if n > 0 {
			s += fmt.Sprintf(", %d bytes of result %d apart", n, i)
		}
	}
	return s
}

// TestXIDsInUse: an XID is not given twice while a call has it.
func TestXIDsInUse(t *testing.T) {
	s := settings.Default()
	r := NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, FirstXID: ^uint32(0) - 1, Settings: &s})
	post(r, r.Start(nil))
	r.Connected(4096, 4096)
	one := func(answer bool) uint32 {
		o := &Outgoing{StreamLen: 40}
		must(t, r.Plan(o))
		if now, err := r.Begin(o); !now || err != nil {
			t.Fatal(now, err)
		}
		r.Launch(o, nil)
		o.Build()
		if answer {
			h := o.Header
			h.Credits = 8
			post(r, r.Receive(0, oncrpc.AppendAcceptedReply(h.Append(nil), o.XID), Invalidation{}, nil))
		}
		return o.XID
	}
	for i, want := range []uint32{^uint32(0), 0, 1, 2} {
		if got := one(i != 1); got != want {
			t.Errorf("XID %d, want %d", got, want)
		}
	}
	r.xid = ^uint32(0) // XID 0 is still in flight
	if got := one(false); got != 1 {
		t.Errorf("XID %d, want 1", got)
	}
}
