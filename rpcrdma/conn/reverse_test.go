package conn

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

func TestReverseTranscripts(t *testing.T) {
	playAll(t, "reverse", func() player { return new(duplexPlayer) })
}

// duplexPlayer plays transcripts on one end of a connection with roles of both
// directions.
//
//	end server|client [back=CREDITS] [v2=1] [ord=N] [receive=BYTES] [makes=BYTES] ...    else as start of the forward role
//	message ..., raw ...                    as at the forward role
//	reverse VERB ...                        an input to the reverse role
//	hold 0|1                                calls of a server to its client
//	VERB ...                                an input to the forward role
//
// What the reverse role does is marked.
type duplexPlayer struct {
	server bool
	makes  uint32 // the largest Send that the client makes
	in     Inbound
	q      requesterPlayer
	s      responderPlayer
}

func (p *duplexPlayer) play(t *testing.T, verb string, args []string) []string {
	t.Helper()
	o := options(args)
	switch verb {
	case "end":
		return p.start(t, args[0] == "server", o)
	case "message":
		h := parseHeader(t, args)
		inv := Invalidation{Did: option(t, o, "inv", 0) != 0, RKey: uint32(option(t, o, "inv", 0))}
		return p.receive(append(h.Append(nil), rpcCall(t, o, h.XID)...), inv)
	case "raw":
		msg, err := hex.DecodeString(strings.Join(args, ""))
		must(t, err)
		return p.receive(msg, Invalidation{})
	case "reverse":
		return marked(p.role(!p.server).play(t, args[0], args[1:]))
	case "hold":
		return p.s.show(p.s.r.Hold(args[0] == "1", nil))
	}
	return p.role(p.server).play(t, verb, args)
}

func (p *duplexPlayer) role(responder bool) player {
	if responder {
		return &p.s
	}
	return &p.q
}

func (p *duplexPlayer) start(t *testing.T, server bool, o map[string][]string) (lines []string) {
	p.server, p.in = server, Inbound{}
	var v2 []string
	version := uint32(0)
	if option(t, o, "v2", 0) == 1 {
		v2, version = []string{"v2=on"}, 2
	}
	v2 = append(v2, fmt.Sprintf("ord=%d", option(t, o, "ord", 1)))
	for _, key := range []string{"receive", "receive_size", "chars"} {
		for _, value := range o[key] {
			v2 = append(v2, key+"="+value)
		}
	}
	p.q.play(t, "start", v2)
	p.s.play(t, "start", v2)
	back := settings.Default()
	back.CreditsBackchannel = uint32(option(t, o, "back", 2))
	back = back.Reverse()
	if server {
		p.q.settings, p.makes = back, uint32(option(t, o, "makes", 4096))
		receive := uint32(option(t, o, "receive", 4096))
		p.q.r = NewRequester(RequesterConfig{Receive: receive, ToldSend: 4096, MaxReceives: 100, Reverse: true, Version: version, Settings: &p.q.settings})
		p.q.r.Connected(4096, p.makes)
		lines = append(p.s.play(t, "start", v2), marked(p.q.show(p.q.r.Start(nil)))...)
		p.s.r.Beside(p.q.r)
		p.join()
		return lines
	}
	p.s.settings = back
	p.s.r = NewResponder(ResponderConfig{MaxReceives: 100, Reverse: true, Receive: 4096, Settings: &p.s.settings})
	p.s.r.Takes(uint32(option(t, o, "peer", 4096)))
	lines = append(p.q.play(t, "start", v2), marked(p.s.show(p.s.r.Start(nil)))...)
	p.join()
	return lines
}

// join has messages arrive for both roles.
func (p *duplexPlayer) join() {
	p.in.Replies(p.q.r)
	p.in.Calls(p.s.r, true)
}

// receive takes a message; receives are counted for both roles together.
func (p *duplexPlayer) receive(msg []byte, inv Invalidation) (lines []string) {
	recv := p.q.recv
	p.q.recv++
	a := p.in.Arrive(recv, msg, inv)
	if a.Interrupts {
		lines = p.showOf(!a.Call, p.interrupted(a))
	}
	if a.Call {
		return append(lines, p.showOf(true, p.s.r.Arrived(a, nil))...)
	}
	lines = append(lines, p.showOf(false, p.q.r.Arrived(a, nil))...)
	if p.server {
		lines = append(lines, p.s.show(p.s.r.Replied(nil))...)
	}
	return lines
}

func (p *duplexPlayer) interrupted(a *Arrival) []Action {
	if a.Call {
		return p.q.r.Interrupted(a, nil)
	}
	return p.s.r.Interrupted(a, nil)
}

// showOf carries out what one of the roles asks for.
func (p *duplexPlayer) showOf(responder bool, acts []Action) []string {
	var lines []string
	if responder {
		lines = append(p.s.show(acts), marked(p.changed(acts))...)
	} else {
		lines = p.q.show(acts)
	}
	if responder == p.server {
		return lines
	}
	return marked(lines)
}

// changed tells the role that calls the client what the client announced.
func (p *duplexPlayer) changed(acts []Action) []string {
	if !p.server || !slices.ContainsFunc(acts, func(a Action) bool { return a == Action(Changed{}) }) {
		return nil
	}
	p.q.r.Connected(p.s.r.AgreedReceive(), p.makes)
	p.q.r.PlanReceives(4096)
	c := p.s.r.Characteristics()
	return p.q.show(p.q.r.Heard(&c.Peer, nil))
}

// marked marks what the reverse role does.
func marked(lines []string) []string {
	for i, l := range lines {
		lines[i] = "reverse: " + strings.TrimLeft(l, " ")
	}
	return lines
}
