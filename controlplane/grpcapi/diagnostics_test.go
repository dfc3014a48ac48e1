package grpcapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane/trace"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
)

// watched waits until so many traces and captures run.
func watched(t *testing.T, p *planetest.Plane, n int) {
	t.Helper()
	for p.Tracing().Watchers() != n {
		must(t, t.Context().Err())
		runtime.Gosched()
	}
}

// readCall is an NFS READ of 1 MiB with a write chunk, as it is received.
func readCall(xid uint32) *rpcrdma.Operation {
	h := rpcrdma1.Header{
		XID: xid, Version: 1, Credits: 64,
		Reads:    []rpcrdma1.ReadSegment{{Position: 44, Segment: rpcrdma1.Segment{Handle: 5, Length: 6, Offset: 7}}},
		Writes:   []rpcrdma1.WriteChunk{{{Handle: 0x77, Length: 1 << 20, Offset: 1 << 40}}},
		HasReply: true,
	}
	b := oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: xid, Program: 100003, Version: 3, Procedure: 6})
	return &rpcrdma.Operation{Op: verbs.OpSend, In: true, Length: len(b), Data: [][]byte{b}}
}

func traceOf(t *testing.T, b *bench, ctx context.Context, f *rdmadv1.TraceFilter) rdmadv1.DiagnosticsService_TraceClient {
	t.Helper()
	before := b.plane.Tracing().Watchers()
	stream := have(rdmadv1.NewDiagnosticsServiceClient(b.client).Trace(ctx, &rdmadv1.TraceRequest{Filter: f}))(t)
	watched(t, b.plane, before+1)
	return stream
}

func TestTraceDecodes(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	stream := traceOf(t, b, t.Context(), &rdmadv1.TraceFilter{ConnectionIds: []string{"2"}, Listener: "nfs", Peer: "192.0.2.8"})
	b.plane.Observe("1", readCall(1))
	b.plane.Observe("2", readCall(2))
	b.plane.Observe("2", &rpcrdma.Operation{Op: verbs.OpRDMAWrite, RKey: 0x77, Addr: 1 << 40, Length: 3, Data: [][]byte{[]byte("abc")}})
	b.plane.Observe("2", &rpcrdma.Operation{Op: verbs.OpSendInvalidate, RKey: 0x77, Length: 3, Data: [][]byte{[]byte("abc")}})
	b.plane.Disconnect("2", "bye")
	want := []string{
		`connection_id:"2" operation:SEND direction:IN length:120 ` +
			`header:{xid:2 version:1 credits:64 procedure:"RDMA_MSG" reads:{position:44 segment:{handle:5 length:6 offset:7}} ` +
			`writes:{segments:{handle:119 length:1048576 offset:1099511627776}} reply:{}} ` +
			`rpc:{program:100003 version:3 procedure:6 name:"NFS READ"} ` +
			`summary:"192.0.2.8:1002 > 127.0.0.1:20049: RDMA_MSG xid 0x00000002 credits 64, read at 44: 6 bytes, write: 1048576 bytes, reply: 0 bytes in 0 segments | CALL NFSv3 READ, 40 bytes"`,
		`connection_id:"2" operation:RDMA_WRITE direction:OUT length:3 rkey:119 summary:"127.0.0.1:20049 > 192.0.2.8:1002: RDMA Write, 3 bytes to 0x77:0x10000000000"`,
		`connection_id:"2" operation:SEND_WITH_INVALIDATE direction:OUT length:3 rkey:119 ` +
			`summary:"127.0.0.1:20049 > 192.0.2.8:1002: Send, 3 bytes invalidates 0x77 [malformed: rpcrdma1: message shorter than the header prefix]" ` +
			`malformed:"rpcrdma1: message shorter than the header prefix"`,
	}
	for _, text := range want {
		e := have(stream.Recv())(t)
		if !e.GetTime().IsValid() {
			t.Errorf("time %v", e.GetTime())
		}
		e.Time = nil
		if got := string(bytes.Join(bytes.Fields([]byte(fmt.Sprint(e))), []byte(" "))); got != text {
			t.Errorf("\ngot  %s\nwant %s", got, text)
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the connection's end: %v", err)
	}
}

func TestTraceRefusals(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewDiagnosticsServiceClient(b.client)
	for _, tc := range []struct {
		filter *rdmadv1.TraceFilter
		code   codes.Code
		want   string
	}{
		{&rdmadv1.TraceFilter{Peer: "here"}, codes.InvalidArgument, `filter.peer: "here" is not an address or CIDR, such as 192.0.2.0/24`},
		{&rdmadv1.TraceFilter{Peer: "::ffff:1.2.3.4/90"}, codes.InvalidArgument, `filter.peer: "::ffff:1.2.3.4/90" is not an address or CIDR, such as 192.0.2.0/24`},
		{&rdmadv1.TraceFilter{Listener: "none"}, codes.NotFound, "listener none: not found"},
		{&rdmadv1.TraceFilter{ConnectionIds: []string{"1", "9"}}, codes.NotFound, "connection 9: not found"},
		{&rdmadv1.TraceFilter{ConnectionIds: []string{""}}, codes.InvalidArgument, "filter.connection_ids[0]: must be at least 1 characters"},
	} {
		stream, err := c.Trace(t.Context(), &rdmadv1.TraceRequest{Filter: tc.filter})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		checkRefused(t, err, tc.code, tc.want)
		capture, err := c.Capture(t.Context(), &rdmadv1.CaptureRequest{Filter: tc.filter})
		if err != nil {
			t.Fatal(err)
		}
		_, err = capture.Recv()
		checkRefused(t, err, tc.code, tc.want)
	}
	capture, err := c.Capture(t.Context(), &rdmadv1.CaptureRequest{SnapLength: 1<<20 + 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = capture.Recv()
	checkRefused(t, err, codes.InvalidArgument, "snap_length: must be less than or equal to 1048576 (is 1048577)")
	watched(t, b.plane, 0)
}

func checkRefused(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if st := status.Convert(err); st.Code() != code || st.Message() != text {
		t.Errorf("%v, want %v: %s", err, code, text)
	}
}

func TestTooManyTraces(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	ctx, cancel := context.WithCancel(t.Context())
	for range trace.MaxWatchers / 2 {
		traceOf(t, b, ctx, nil)
	}
	stream, err := rdmadv1.NewDiagnosticsServiceClient(b.client).Trace(ctx, &rdmadv1.TraceRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	checkRefused(t, err, codes.ResourceExhausted, "all 8 traces and captures that one client may have are in use; end another one first")
	cancel()
	for { // a trace keeps its place until its end is recorded
		stream := have(rdmadv1.NewDiagnosticsServiceClient(b.client).Trace(t.Context(), &rdmadv1.TraceRequest{}))(t)
		if have(stream.Header())(t) != nil {
			return
		}
		if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted { // no place yet, or too many requests
			t.Fatal(err)
		}
	}
}

// TestCaptureIsAFile: the pieces are a pcapng file, whatever their number, and
// every piece ends with a block.
func TestCaptureIsAFile(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	stream, err := rdmadv1.NewDiagnosticsServiceClient(b.client).Capture(t.Context(),
		&rdmadv1.CaptureRequest{Filter: &rdmadv1.TraceFilter{ConnectionIds: []string{"1"}}, SnapLength: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	watched(t, b.plane, 1)
	data := make([]byte, 300_000)
	for range 4 {
		b.plane.Observe("1", readCall(1))
		b.plane.Observe("1", &rpcrdma.Operation{Op: verbs.OpRDMAWrite, RKey: 0x77, Length: len(data), Data: [][]byte{data}})
	}
	b.plane.Disconnect("1", "bye")
	var file []byte
	packets := 0
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, piece.GetData()...)
		packets += int(piece.GetPackets())
		if got := countPackets(t, file); got != packets || piece.GetDropped() != 0 {
			t.Errorf("%d packets so far, told %d; %v dropped", got, packets, piece.GetDropped())
		}
	}
	if packets < 4+4*2 || len(file) < 400_000 || len(file) > 500_000 {
		t.Errorf("a file of %d bytes with %d packets", len(file), packets)
	}
}

// TestCaptureCountsTheLastDrops: the file counts dropped events also if no event comes after them.
func TestCaptureCountsTheLastDrops(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	stream, err := rdmadv1.NewDiagnosticsServiceClient(b.client).Capture(t.Context(), &rdmadv1.CaptureRequest{Filter: &rdmadv1.TraceFilter{ConnectionIds: []string{"1"}}})
	if err != nil {
		t.Fatal(err)
	}
	watched(t, b.plane, 1)
	const n, handshake = 4000, 5
	data := make([]byte, 8<<10) // one packet, and four times what the buffer holds
	for range n {
		b.plane.Observe("1", &rpcrdma.Operation{Op: verbs.OpSend, Length: len(data), Data: [][]byte{data}})
	}
	b.plane.Disconnect("1", "bye")
	var file []byte
	for err == nil {
		var piece *rdmadv1.CaptureResponse
		piece, err = stream.Recv()
		file = append(file, piece.GetData()...)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	packets := 0
	for ; err == nil; packets++ {
		_, _, err = r.ReadPacketData()
	}
	intf, err := r.Interface(0)
	if err != nil {
		t.Fatal(err)
	}
	if seen, dropped := packets-1-handshake, int(intf.Statistics.PacketsDropped); dropped == 0 || seen+dropped != n {
		t.Errorf("%d events seen and %d dropped, of %d", seen, dropped, n)
	}
}

// countPackets reads a file, which must be whole.
func countPackets(t *testing.T, file []byte) (n int) {
	t.Helper()
	r := have(pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions))(t)
	for {
		_, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}

// TestStoppedTraceReader: a client that doesn't read costs connections
// nothing, and is told later what it missed.
func TestStoppedTraceReader(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	stream := traceOf(t, b, t.Context(), nil)
	const n = 100_000
	for i := range uint32(n) {
		b.plane.Observe("1", readCall(i))
	}
	b.plane.Observe("1", &rpcrdma.Operation{Op: verbs.OpRDMAWrite})
	seen, dropped, last := 0, 0.0, uint32(0)
	for dropped == 0 {
		e := have(stream.Recv())(t)
		if x := e.GetHeader().GetXid(); x < last {
			t.Fatalf("xid %d after %d", x, last)
		} else {
			last = x
		}
		seen++
		dropped = e.GetDropped()
	}
	if seen+int(dropped) > n+1 {
		t.Errorf("%d seen, %v dropped of %d", seen, dropped, n+1)
	}
}

// TestShutdownEndsTraces: rdmad does not wait for readers to go away.
func TestShutdownEndsTraces(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	reading := traceOf(t, b, t.Context(), nil)
	b.plane.Observe("1", readCall(1))
	ended := make(chan error, 1)
	go func() { ended <- b.server.Shutdown(context.Background()) }()
	var err error
	for err == nil {
		_, err = reading.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the reader's end: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

// TestCanceledStreamsAreNoErrors: a client that goes away is not rdmad's fault.
func TestCanceledStreamsAreNoErrors(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	ctx, cancel := context.WithCancel(t.Context())
	traceOf(t, b, ctx, nil)
	if _, err := rdmadv1.NewDiagnosticsServiceClient(b.client).Capture(ctx, &rdmadv1.CaptureRequest{}); err != nil {
		t.Fatal(err)
	}
	watched(t, b.plane, 2)
	cancel()
	for _, method := range []string{"Trace", "Capture"} {
		b.log.Await(t, "grpc.method="+method)
	}
	if log := b.log.String(); strings.Contains(log, "level=ERROR") || strings.Count(log, "grpc.code=Canceled") != 2 {
		t.Errorf("logged:\n%s", log)
	}
}
