package conn

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// A transcript is a text of inputs to a role, each followed by the actions
// that it led to:
//
//	# comment
//	> input arguments...
//	action
//
// Segments are written HANDLE:LENGTH@ADDRESS, a chunk as segments joined by
// commas, a read chunk as POSITION/chunk.

var update = flag.Bool("update", false, "rewrite the transcripts' actions")

// player is a role under test.
type player interface {
	// play gives one input and returns the actions as text.
	play(t *testing.T, verb string, args []string) []string
}

// playAll plays all transcripts in dir, each with a fresh player.
func playAll(t *testing.T, dir string, fresh func() player) {
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			must(t, err)
			got := playText(t, string(text), fresh())
			if *update {
				must(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			if got != string(text) {
				t.Errorf("%s differs; it would be:\n%s", file, got)
			}
		})
	}
}

// playText plays a transcript and returns it with the actions that came.
func playText(t *testing.T, text string, p player) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "> "):
			out.WriteString(line + "\n")
			words := strings.Fields(line[2:])
			for _, a := range p.play(t, words[0], words[1:]) {
				out.WriteString(a + "\n")
			}
		}
	}
	return out.String()
}

// options splits key=value arguments; a key may come several times.
func options(args []string) map[string][]string {
	o := make(map[string][]string)
	for _, a := range args {
		k, v, _ := strings.Cut(a, "=")
		o[k] = append(o[k], v)
	}
	return o
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		t.Fatalf("transcript: %v", err)
	}
	return int(n)
}

// option is the number given for key, or otherwise.
func option(t *testing.T, o map[string][]string, key string, otherwise int) int {
	t.Helper()
	if v := o[key]; len(v) > 0 {
		return number(t, v[0])
	}
	return otherwise
}

// setExtensions takes msgp=0|1 (extensions.msgp) and reads=0|1 (extensions.read_replies).
func setExtensions(t *testing.T, s *settings.Settings, o map[string][]string) {
	t.Helper()
	for key, ext := range map[string]settings.Extensions{"msgp": settings.ExtMSGP, "reads": settings.ExtReadReplies} {
		switch option(t, o, key, -1) {
		case -1:
		case 1:
			s.Extensions |= ext
		default:
			s.Extensions &^= ext
		}
	}
}

func parseSegment(t *testing.T, s string) rpcrdma1.Segment {
	t.Helper()
	h, rest, _ := strings.Cut(s, ":")
	n, addr, _ := strings.Cut(rest, "@")
	return rpcrdma1.Segment{Handle: uint32(number(t, h)), Length: uint32(number(t, n)), Offset: uint64(number(t, addr))}
}

func parseChunk(t *testing.T, s string) (c rpcrdma1.WriteChunk) {
	t.Helper()
	if s == "" {
		return rpcrdma1.WriteChunk{}
	}
	for w := range strings.SplitSeq(s, ",") {
		c = append(c, parseSegment(t, w))
	}
	return c
}

// parseHeader makes a header of: type xid= vers= dir= credits= align= thresh= read= write= reply= opt= info=
// or, in place of the last two, one of init= update= want= done= as parseCharacteristics has it.
func parseHeader(t *testing.T, args []string) Header {
	t.Helper()
	procs := map[string]rpcrdma1.Proc{"MSG": 0, "NOMSG": 1, "MSGP": 2, "DONE": 3, "ERROR": 4, "OPTIONAL": 5}
	o := options(args[1:])
	h := Header{rpcrdma2.Header{Header: rpcrdma1.Header{
		XID: uint32(option(t, o, "xid", 1)), Version: uint32(option(t, o, "vers", 1)),
		Credits: uint32(option(t, o, "credits", 32)), Proc: procs[args[0]],
		Err: rpcrdma1.ErrCode(option(t, o, "err", 0)), Low: uint32(option(t, o, "low", 0)), High: uint32(option(t, o, "high", 0)),
		Align: uint32(option(t, o, "align", 0)), Thresh: uint32(option(t, o, "thresh", 0)),
	}}}
	h.Direction = map[string]rpcrdma2.Direction{"call": rpcrdma2.Call, "reply": rpcrdma2.Reply}[strings.Join(o["dir"], "")]
	h.Option = rpcrdma2.OptType(option(t, o, "opt", 0))
	if body := parseCharacteristics(t, o); body != nil {
		h.Option, h.Info = body.Type(), body.Append(nil)
	} else if info, err := hex.DecodeString(strings.Join(o["info"], "")); err == nil {
		h.Info = info
	} else {
		t.Fatalf("transcript: %v", err)
	}
	for _, r := range o["read"] {
		pos, chunk, _ := strings.Cut(r, "/")
		for _, s := range parseChunk(t, chunk) {
			h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Position: uint32(number(t, pos)), Segment: s})
		}
	}
	for _, w := range o["write"] {
		h.Writes = append(h.Writes, parseChunk(t, w))
	}
	if r := o["reply"]; len(r) > 0 {
		h.Reply, h.HasReply = parseChunk(t, r[0]), true
	}
	return h
}

// formatHeader is the inverse of parseHeader.
func formatHeader(h *Header) string {
	names := []string{"MSG", "NOMSG", "MSGP", "DONE", "ERROR", "OPTIONAL"}
	var b strings.Builder
	fmt.Fprintf(&b, "%s xid=%d", names[h.Proc], h.XID)
	if h.Version != 1 {
		fmt.Fprintf(&b, " vers=%d", h.Version)
	}
	fmt.Fprintf(&b, " credits=%d", h.Credits)
	if h.Proc == rpcrdma1.Error {
		fmt.Fprintf(&b, " err=%d", h.Err)
		if h.Err == rpcrdma1.ErrVers {
			fmt.Fprintf(&b, " low=%d high=%d", h.Low, h.High)
		}
		return b.String()
	}
	if h.Version == rpcrdma2.Version {
		fmt.Fprintf(&b, " dir=%s", []string{"call", "reply"}[h.Direction])
	}
	if h.Proc == rpcrdma2.Optional {
		return b.String() + formatOption(h)
	}
	if h.Proc == rpcrdma1.MsgP {
		fmt.Fprintf(&b, " align=%d thresh=%d", h.Align, h.Thresh)
	}
	for _, r := range h.Reads {
		fmt.Fprintf(&b, " read=%d/%s", r.Position, formatChunk(rpcrdma1.WriteChunk{r.Segment}))
	}
	for _, w := range h.Writes {
		fmt.Fprintf(&b, " write=%s", formatChunk(w))
	}
	if h.HasReply {
		fmt.Fprintf(&b, " reply=%s", formatChunk(h.Reply))
	}
	return b.String()
}

func formatChunk(c rpcrdma1.WriteChunk) string {
	var s []string
	for _, g := range c {
		s = append(s, fmt.Sprintf("%d:%d@%d", g.Handle, g.Length, g.Offset))
	}
	return strings.Join(s, ",")
}
