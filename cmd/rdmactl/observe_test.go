package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"

	"github.com/gopacket/gopacket/pcapgo"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
)

// watching waits until so many traces and captures run: watching N.
func watching(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for hub := ts.Value(worldKey{}).(*world).plane.Tracing(); hub.Watchers() != n; runtime.Gosched() {
		ts.Check(ctx.Err())
	}
}

// written waits until a file has what a regular expression matches: written FILE REGEXP.
func written(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[1])
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if data, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && want.Match(data) {
			return
		}
		ts.Check(ctx.Err())
		runtime.Gosched()
	}
}

// observe lets a connection do something: observe ID WHAT. WHAT is null for a
// NULL call and its reply, read for an NFS READ with a write chunk, garbage for
// a message that is none.
func observe(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: observe ID WHAT")
	}
	for _, o := range scenes(ts, args[1]) {
		for _, d := range o.Data {
			o.Length += len(d)
		}
		ts.Value(worldKey{}).(*world).plane.Observe(args[0], &o)
	}
}

func scenes(ts *testscript.TestScript, what string) []rpcrdma.Operation {
	chunk := []rpcrdma1.WriteChunk{{{Handle: 0x77, Length: 8192, Offset: 1 << 32}}}
	switch what {
	case "null":
		return []rpcrdma.Operation{
			{Op: verbs.OpSend, In: true, Data: call(7, 100003, 3, 0, nil)},
			{Op: verbs.OpSend, Data: reply(7, nil)},
		}
	case "read":
		return []rpcrdma.Operation{
			{Op: verbs.OpSend, In: true, Data: call(8, 100003, 3, 6, chunk)},
			{Op: verbs.OpRDMAWrite, RKey: 0x77, Addr: 1 << 32, Data: [][]byte{make([]byte, 8192)}},
			{Op: verbs.OpSendInvalidate, RKey: 0x77, Data: reply(8, chunk)},
		}
	case "garbage":
		return []rpcrdma.Operation{{Op: verbs.OpSend, In: true, Data: [][]byte{make([]byte, 20)}}}
	}
	ts.Fatalf("nothing to observe is called %s", what)
	return nil
}

// call is a message in two pieces, the transport header and the rest.
func call(xid, program, version, procedure uint32, writes []rpcrdma1.WriteChunk) [][]byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 64, Writes: writes}
	return [][]byte{h.Append(nil), oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: program, Version: version, Procedure: procedure})}
}

func reply(xid uint32, writes []rpcrdma1.WriteChunk) [][]byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 32, Writes: writes}
	return [][]byte{h.Append(nil), oncrpc.AppendAcceptedReply(nil, xid)}
}

// times are what differs from run to run: times, the client's port and page
// tokens.
var times = regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{6}|\d{4}-\d\d-\d\d[T ][0-9:.]+Z?|127\.0\.0\.1:\d{5,}|eyJ[A-Za-z0-9_=-]+`)

// strip copies a file without what differs: strip FROM TO.
func strip(ts *testscript.TestScript, _ bool, args []string) {
	text := times.ReplaceAllString(ts.ReadFile(args[0]), "TIME")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// packets reads a capture file, which must be whole, and counts its packets
// and those that are cut: packets FILE ALL CUT.
func packets(ts *testscript.TestScript, _ bool, args []string) {
	r, err := pcapgo.NewNgReader(bytes.NewReader([]byte(ts.ReadFile(args[0]))), pcapgo.DefaultNgReaderOptions)
	ts.Check(err)
	all, cut := 0, 0
	for {
		_, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		ts.Check(err)
		all++
		if ci.CaptureLength < ci.Length {
			cut++
		}
	}
	if got := []string{strconv.Itoa(all), strconv.Itoa(cut)}; got[0] != args[1] || got[1] != args[2] {
		ts.Fatalf("%s has %s packets, %s of them cut", args[0], got[0], got[1])
	}
}

// cutFile copies a file without its last bytes: cutfile FROM TO N.
func cutFile(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	data := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(data[:len(data)-n]), 0o600))
}
