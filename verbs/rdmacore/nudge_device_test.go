//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestNudge: an iWARP passive side, like siw, may overlook the first message until another
// one comes. The active side then sends a nudge, and the connection goes on. Nudges have
// their own slots in the queue, and no completion. Other transports need none.
func TestNudge(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	if !p.first.iwarp() {
		pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
		defer pair.Close()
		if pair.A.QP.(*queuePair).nudgeTimer != nil {
			t.Error("nudges on a transport that loses nothing")
		}
		return
	}
	l, err := net.Listen("tcp", *addressFlag+":0")
	must(t, err)
	defer l.Close()
	served := make(chan error, 1)
	go func() { served <- serveDeaf(l) }()
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	s, err := verbstest.Dial(ctx, t, p, l.Addr().String(), verbstest.Options{SendWR: 2})
	must(t, err)
	defer s.Close()
	s.Receive(1, 0, 64)
	s.Post(verbs.SendWR{ID: 2, Op: verbs.OpSend})
	var wc [4]verbs.WC
	if err := s.RecvCQ.Wait(ctx); err != nil {
		t.Fatalf("%v; peer: %v", err, <-served)
	}
	if n := s.RecvCQ.Poll(wc[:]); n != 1 || wc[0].Status != verbs.WCSuccess || wc[0].ID != 1 {
		t.Fatalf("received %+v", wc[:n])
	}
	checkHeard(t, s.QP.(*queuePair))
	last := []verbs.SendWR{{ID: 3, Op: verbs.OpSend, Flags: verbs.SendSignaled}, {ID: 4, Op: verbs.OpSend}}
	if n, err := s.QP.PostSend(last); n != 1 || !errors.Is(err, verbs.ErrQueueFull) {
		t.Errorf("a queue of 2 took %d requests more than one: %v", n, err)
	}
	must(t, s.SendCQ.Wait(ctx))
	if n := s.SendCQ.Poll(wc[:]); n != 1 || wc[0].Status != verbs.WCSuccess || wc[0].ID != 3 {
		t.Errorf("completed %+v", wc[:n])
	}
	if sq := &s.QP.(*queuePair).sq; sq.outstanding() != 0 || sq.internal != 0 {
		t.Errorf("%d requests and %d of our own are left", sq.outstanding(), sq.internal)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// checkHeard checks that a queue pair whose peer has answered sends no more nudges.
func checkHeard(t *testing.T, q *queuePair) {
	t.Helper()
	q.Lock()
	defer q.Unlock()
	if before := q.sq.tail; q.nudgeLocked() || q.sq.tail != before {
		t.Error("nudges a peer that has answered")
	}
}

// RDMAP's opcodes with its version (RFC 5040 §4.1), and DDP's flags with its version and the
// last segment's flag (RFC 5041 §4.2, §4.3).
const (
	rdmapWrite, rdmapSend = 0x40, 0x43
	ddpTagged, ddpLast    = 0x80, 0x41
)

// serveDeaf accepts a connection and reads the first message only when another message has
// come, which must be a nudge. It answers it and then expects a Send.
func serveDeaf(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(verbstest.Patience))
	if err := agreeMPA(c); err != nil {
		return err
	}
	op, _, err := nextFPDU(c)
	if err != nil {
		return err
	}
	if op != rdmapSend {
		return fmt.Errorf("first came opcode %#x", op)
	}
	op, n, err := nextFPDU(c)
	if err != nil {
		return err
	}
	if op != rdmapWrite || n != 0 {
		return fmt.Errorf("then came opcode %#x of %d bytes", op, n)
	}
	// An empty Send: length, headers with queue 0 and sequence number 1, no CRC.
	answer := make([]byte, 2+18+4)
	answer[1], answer[2], answer[3], answer[15] = 18, ddpLast, rdmapSend, 1
	if _, err := c.Write(answer); err != nil {
		return err
	}
	for {
		switch op, n, err := nextFPDU(c); {
		case err != nil:
			return err
		case op == rdmapSend:
			return nil
		case op != rdmapWrite || n != 0:
			return fmt.Errorf("later came opcode %#x of %d bytes", op, n)
		}
	}
}

// agreeMPA accepts a connection request (RFC 5044 §7.1), which must be without CRC.
func agreeMPA(c net.Conn) error {
	b := make([]byte, 20)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	request, reply, flags := []byte("MPA ID Req Frame"), []byte("MPA ID Rep Frame"), b[16]
	if !bytes.HasPrefix(b, request) || flags&0x40 != 0 {
		return fmt.Errorf("not a request without CRC: %x", b)
	}
	copy(b, reply)
	data := make([]byte, binary.BigEndian.Uint16(b[18:]))
	if _, err := io.ReadFull(c, data); err != nil {
		return err
	}
	_, err := c.Write(append(b, data...))
	return err
}

// nextFPDU reads an FPDU (RFC 5044 §4.1). It returns the RDMAP opcode and the bytes after
// the headers.
func nextFPDU(c net.Conn) (op byte, n int, err error) {
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return 0, 0, err
	}
	size := int(binary.BigEndian.Uint16(length[:]))
	padding := -(len(length) + size) & 3
	b := make([]byte, size+padding+4)
	if _, err := io.ReadFull(c, b); err != nil {
		return 0, 0, err
	}
	if header := 18; b[0]&ddpTagged == 0 {
		return b[1], size - header, nil
	}
	return b[1], size - 14, nil
}

// TestFirstMessages: the first message of each of many connections arrives, even if it is
// sent before the passive side has returned from Accept.
func TestFirstMessages(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), verbstest.Patience)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 4 { // so that they disturb each other
		wg.Go(func() {
			if err := sendFirst(ctx, t, p, 25); err != nil {
				t.Error(err)
			}
		})
	}
}

// sendFirst makes connections, one after the other, with one message each.
func sendFirst(ctx context.Context, t *testing.T, p *Provider, connections int) error {
	l, err := p.Listen(ctx, *addressFlag+":0")
	if err != nil {
		return err
	}
	defer l.Close()
	for range connections {
		received := make(chan error, 1)
		go func() { received <- receiveFirst(ctx, t, l) }()
		a, err := verbstest.Dial(ctx, t, p, l.Addr().String(), verbstest.Options{})
		if err != nil {
			return err
		}
		if _, err = a.QP.PostSend([]verbs.SendWR{{ID: 1, Op: verbs.OpSend}}); err == nil {
			err = <-received
		}
		a.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// receiveFirst accepts a connection and waits for its first message.
func receiveFirst(ctx context.Context, t *testing.T, l rdmacm.Listener) error {
	id, err := l.GetRequest(ctx)
	if err != nil {
		return err
	}
	s, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil)
	if err != nil {
		return errors.Join(err, id.Close())
	}
	defer s.Close()
	if _, err := s.QP.PostRecv([]verbs.RecvWR{{ID: 2}}); err != nil {
		return err
	}
	if err := id.Accept(ctx, rdmacm.ConnParam{}); err != nil {
		return err
	}
	return s.RecvCQ.Wait(ctx)
}
