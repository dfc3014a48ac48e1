package grpcapi

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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

// TestReplyIsWrittenFirst: a connection whose handler is done, and whose reply is not
// written yet, keeps its place. Once the reply is written, it may go.
func TestReplyIsWrittenFirst(t *testing.T) {
	handled := make(chan struct{}, 1)
	p := openPort(t, connlimit.Limits{Total: 1}, func() { handled <- struct{}{} })
	client := p.client(t)
	if err := p.check(t, client); err != nil {
		t.Fatal(err)
	}
	<-handled
	p.listener.gate.Lock()
	answer := make(chan error, 1)
	go func() { answer <- p.check(t, client) }()
	<-handled
	<-p.listener.waiting
	if _, err := p.admit(time.Now().Add(time.Hour)); err == nil {
		t.Error("a newcomer took the place before the reply was written")
	}
	p.listener.gate.Unlock()
	if err := <-answer; err != nil {
		t.Fatalf("the reply is lost: %v", err)
	}
	p.rest()
	if _, err := p.admit(time.Now().Add(2 * time.Hour)); err != nil {
		t.Errorf("after the reply was written: %v", err)
	}
}

// TestUnfinishedRequests: requests that are never whole keep no place, and rdmad remembers
// no more of them than it allows at one time, and those whose refusals are not written yet.
func TestUnfinishedRequests(t *testing.T) {
	p := openPort(t, connlimit.Limits{Total: 1}, func() {})
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(c, c)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	h := hpack.NewEncoder(&block)
	for _, field := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.health.v1.Health/Check"}, {":authority", "rdmad"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		if err := h.WriteField(hpack.HeaderField{Name: field[0], Value: field[1], Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	const requests = 2000
	go func() {
		for i := range uint32(requests) {
			if f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: block.Bytes(), EndHeaders: true}) != nil {
				return
			}
		}
	}()
	for refused := 0; refused < requests-maxStreams; {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := frame.(*http2.RSTStreamFrame); ok {
			refused++
		}
	}
	u := p.rest()[0]
	remembered := func() int {
		u.mu.Lock()
		defer u.mu.Unlock()
		return len(u.use)
	}
	for end := time.Now().Add(10 * time.Second); remembered() > maxStreams; time.Sleep(time.Millisecond) { // the last refusals may just be written
		if time.Now().After(end) {
			t.Fatalf("%d streams are remembered", remembered())
		}
	}
	if _, err := p.admit(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
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
