package conn

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// setCharacteristics sets chars=0|1 receive_size=BYTES accept=0|1 backchannel=0|1.
func setCharacteristics(t *testing.T, s *settings.Settings, o map[string][]string) {
	t.Helper()
	flag := func(key string, e settings.Extensions) {
		switch option(t, o, key, -1) {
		case 0:
			s.Extensions &^= e
		case 1:
			s.Extensions |= e
		}
	}
	flag("chars", settings.ExtCharacteristics)
	flag("backchannel", settings.ExtBackchannel)
	s.InlineReceiveSize = uint32(option(t, o, "receive_size", int(s.InlineReceiveSize)))
	if v := option(t, o, "accept", -1); v >= 0 {
		s.RemoteInvalidationAccept = v == 1
	}
}

// parseCharacteristics makes the body of an operation: init=SET with nochg=BITS, update=SET,
// want=SET, or done=BITS with rejected=BITS and other=SET. A set is ID:HEX,…; - is an empty one.
func parseCharacteristics(t *testing.T, o map[string][]string) rpcrdma2.Body {
	t.Helper()
	set := func(key string) (s rpcrdma2.Set) {
		for c := range strings.SplitSeq(strings.Join(o[key], ""), ",") {
			if c == "" || c == "-" {
				continue
			}
			id, data, _ := strings.Cut(c, ":")
			n := number(t, id)
			b, err := hex.DecodeString(data)
			if err != nil {
				t.Fatalf("transcript: %v", err)
			}
			s = append(s, rpcrdma2.Characteristic{ID: rpcrdma2.CharID(n), Data: b})
		}
		return s
	}
	bits := func(key string) (s rpcrdma2.Subset) {
		if n := option(t, o, key, 0); n != 0 {
			s = rpcrdma2.Subset{uint32(n)}
		}
		return s
	}
	switch {
	case len(o["init"]) > 0:
		return &rpcrdma2.Init{Start: set("init"), NoChange: bits("nochg")}
	case len(o["update"]) > 0:
		return &rpcrdma2.Update{Now: set("update")}
	case len(o["want"]) > 0:
		return &rpcrdma2.Request{Want: set("want")}
	case len(o["done"]) > 0:
		return &rpcrdma2.Respond{Done: bits("done"), Rejected: bits("rejected"), Other: set("other")}
	}
	return nil
}

// characteristicsText is its inverse; empty for other operations.
func characteristicsText(h *rpcrdma2.Header) string {
	set := func(s rpcrdma2.Set) string {
		var out []string
		for _, c := range s {
			out = append(out, fmt.Sprintf("%d:%x", c.ID, c.Data))
		}
		return strings.Join(out, ",")
	}
	clean := func(key string, s rpcrdma2.Set) string {
		if len(s) == 0 {
			return " " + key + "=-"
		}
		return " " + key + "=" + set(s)
	}
	bits := func(key string, s rpcrdma2.Subset) string {
		if len(s) == 0 {
			return " " + key + "=0"
		}
		return fmt.Sprintf(" %s=%d", key, s[0])
	}
	switch h.Option {
	case rpcrdma2.OptInit:
		var body rpcrdma2.Init
		if body.Decode(h.Info) == nil {
			return " INIT" + clean("init", body.Start) + bits("nochg", body.NoChange)
		}
	case rpcrdma2.OptUpdate:
		var body rpcrdma2.Update
		if body.Decode(h.Info) == nil {
			return " UPDATE" + clean("update", body.Now)
		}
	case rpcrdma2.OptRequest:
		var body rpcrdma2.Request
		if body.Decode(h.Info) == nil {
			return " REQUEST" + clean("want", body.Want)
		}
	case rpcrdma2.OptRespond:
		var body rpcrdma2.Respond
		if body.Decode(h.Info) == nil {
			return " RESPOND" + bits("done", body.Done) + bits("rejected", body.Rejected) + clean("other", body.Other)
		}
	}
	return ""
}

// tellText shows the actions of characteristics.
func tellText(a Action) []string {
	switch a := a.(type) {
	case Tell:
		var h Header
		if _, err := h.Decode(a.Body); err != nil {
			return []string{fmt.Sprintf("tell %v", err)}
		}
		return []string{"tell " + formatHeader(&h)}
	case Resize:
		return []string{fmt.Sprintf("resize to %d", a.N)}
	case Changed:
		return []string{"changed"}
	}
	return nil
}

// stateText shows what both ends know, and two limits.
func stateText(c Characteristics, sends, other uint32) []string {
	text := func(v *rpcrdma2.Values) string {
		return fmt.Sprintf("%d bytes, invalidation %v, backward %d", v.ReceiveSize, v.Invalidation, v.Backward)
	}
	return []string{
		fmt.Sprintf("spoken %v, lacks %v, asks %v; sends %d, receives %d", c.Spoken, c.Lacks, c.Asks, sends, other),
		"own " + text(&c.Own), "peer " + text(&c.Peer),
	}
}
