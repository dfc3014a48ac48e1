package grpcapi

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// held is a listener whose connections do not write while the gate is locked.
type held struct {
	net.Listener
	gate    sync.RWMutex
	waiting chan struct{} // has an element for each write that waits
}

func (h *held) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &heldConn{c, h}, nil
}

type heldConn struct {
	net.Conn
	h *held
}

func (c *heldConn) NetConn() net.Conn { return c.Conn }

func (c *heldConn) Write(b []byte) (int, error) {
	if !c.h.gate.TryRLock() {
		c.h.waiting <- struct{}{}
		c.h.gate.RLock()
	}
	defer c.h.gate.RUnlock()
	return c.Conn.Write(b)
}

// newcomer wants a place.
type newcomer struct{}

func (newcomer) Busy() bool               { return false }
func (newcomer) Evict(connlimit.Eviction) {}

// TestReplyIsWrittenFirst: a connection whose handler is done, and whose reply is not
// written yet, keeps its place. Once the reply is written, it may go.
func TestReplyIsWrittenFirst(t *testing.T) {
	policy, err := auth.NewPolicy(auth.Rules{})
	if err != nil {
		t.Fatal(err)
	}
	places, log, handled := NewPlaces(connlimit.Limits{Total: 1}), slog.New(slog.DiscardHandler), make(chan struct{}, 1)
	server := grpc.NewServer(
		grpc.Creds(&doorman{auth.Credentials(policy, nil, log), places, nil, log}),
		grpc.ChainUnaryInterceptor(unaryPlaced, func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			defer func() { handled <- struct{}{} }()
			return next(ctx, req)
		}))
	healthpb.RegisterHealthServer(server, health.NewServer())
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, served := &held{Listener: tcp, waiting: make(chan struct{}, 16)}, make(chan error)
	go func() { served <- server.Serve(port.Listen(l, places.arriving, nil, log)) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient("passthrough:///"+tcp.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	check := func() error {
		_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		return err
	}
	now := time.Now()
	admit := func() error {
		now = now.Add(time.Hour) // so that all are idle, except those in use
		place, err := places.Clients.Admit(now, connlimit.Name("newcomer"), connlimit.Ordinary, newcomer{})
		if err == nil {
			place.Leave()
		}
		return err
	}

	if err := check(); err != nil {
		t.Fatal(err)
	}
	<-handled
	l.gate.Lock()
	answer := make(chan error, 1)
	go func() { answer <- check() }()
	<-handled
	<-l.waiting
	if admit() == nil {
		t.Error("a newcomer took the place before the reply was written")
	}
	l.gate.Unlock()
	if err := <-answer; err != nil {
		t.Fatalf("the reply is lost: %v", err)
	}
	for admit() != nil { // the server knows a little later than the client that it is written
		time.Sleep(time.Millisecond)
	}
}

// TestFramesInPieces: frames are followed however the bytes of a connection are cut.
func TestFramesInPieces(t *testing.T) {
	var sent bytes.Buffer
	sent.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&sent, nil)
	for _, err := range []error{
		f.WriteSettings(),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: make([]byte, 40), EndHeaders: true}),
		f.WriteData(1, false, make([]byte, 300)),
		f.WriteData(1, true, nil),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte{1}, EndHeaders: true, EndStream: true}),
		f.WriteRSTStream(3, http2.ErrCodeCancel),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	const preface, settings = "DATA 0 0 ", "SETTINGS 0 0 "
	want := preface + settings + "HEADERS 4 1 DATA 0 1 DATA 1 1 HEADERS 5 3 RST_STREAM 0 3 "
	for size := 1; size <= sent.Len(); size++ {
		got := ""
		u := frames{have: frameHead, left: len(http2.ClientPreface), ended: func(kind http2.FrameType, flags http2.Flags, stream uint32) {
			got += fmt.Sprint(kind, " ", uint8(flags), " ", stream, " ")
		}}
		for b := range slices.Chunk(sent.Bytes(), size) {
			u.follow(b)
		}
		if got != want {
			t.Fatalf("pieces of %d bytes: %s", size, got)
		}
	}
}

// TestStreamsInUse: which streams keep a connection in use.
func TestStreamsInUse(t *testing.T) {
	const headers, data, reset, last = http2.FrameHeaders, http2.FrameData, http2.FrameRSTStream, http2.FlagDataEndStream
	p := new(port.Conn)
	u := newInUse(nil, p)
	for i, step := range []struct {
		by     func(http2.FrameType, http2.Flags, uint32)
		kind   http2.FrameType
		flags  http2.Flags
		stream uint32
		busy   bool
	}{
		{u.asked, headers, 0, 1, false}, // not whole: it may never be
		{u.asked, data, 0, 1, false},
		{u.asked, data, last, 1, true},
		{u.asked, headers, last, 3, true},
		{u.answered, headers, 0, 1, true},
		{u.answered, data, 0, 1, true},
		{u.answered, headers, last, 1, true}, // 3 is open
		{u.asked, reset, 0, 3, false},
		{u.answered, reset, 0, 3, false},
		{u.asked, headers, last, 3, false}, // again
		{u.asked, headers, 0, 5, false},
		{u.answered, headers, 0, 5, true}, // answered while the client goes on
		{u.asked, data, last, 5, true},
		{u.answered, headers, last, 5, false},
		{u.answered, reset, 0, 5, false},
		{u.asked, headers, 0, 7, false},
		{u.answered, headers, last, 7, false}, // refused
		{u.asked, data, last, 7, false},
		{u.asked, data, last, 9, false}, // never opened
	} {
		if step.by(step.kind, step.flags, step.stream); p.Busy() != step.busy {
			t.Errorf("step %d: in use %v", i, p.Busy())
		}
	}
	if len(u.use) != 0 {
		t.Errorf("streams remain: %v", u.use)
	}
}
