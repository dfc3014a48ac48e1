package siege

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane/iwarp"
)

var rdmaAttacks = []Attack{
	{Name: "rdma-silent", Does: "500 connections to the RDMA port that say nothing", run: keep(500, toRDMA, hold)},
	{Name: "rdma-trickling-handshake", Does: "200 connections that send the MPA request byte by byte",
		run: keep(200, toRDMA, trickleHandshake)},
	{Name: "rdma-trickling-fpdu", Does: "200 connections that send a call byte by byte",
		run: keep(200, greeted, trickleFPDU)},
	{Name: "rdma-half-open", Does: "5,000 connections that end their handshake and say nothing more",
		run: keepScaled(5000, handshaken, holdPeer)},
	{Name: "rdma-idle", Does: "1,500 connections of one machine with one NULL each",
		run: keepScaled(1500, greeted, drain)},
	{Name: "rdma-idle-many-machines", Does: "4,500 connections of 100 machines with one NULL each",
		run: keepScaled(4500, ofManyMachines, holdPeer)},
	{Name: "rdma-zero-window", Does: "32 connections that ask for all the 1 MiB READs that their credits allow, and read nothing",
		run: withFile(keep(32, askAll, readNothing))},
	{Name: "rdma-slow-reader", Does: "the same, reading 60 KB/s",
		run: withFile(keep(32, askAll, readSlowly))},
	{Name: "rdma-never-answering", Does: "200 connections with 30 WRITEs of 1 MiB each that never answer an RDMA Read",
		run: withFile(keep(200, offer, drain))},
	{Name: "rdma-slowly-answering", Does: "the same, answering with 1 byte/s",
		run: withFile(keep(200, offer, answerSlowly))},
	{Name: "rdma-read-flood", Does: "16 connections that keep all their credits in 1 MiB READs, and read as fast as they can",
		run: withFile(keep(16, handshaken, flood((*peer).read)))},
	{Name: "rdma-write-flood", Does: "16 connections that keep all their credits in 1 MiB WRITEs", run: withFile(keep(16, handshaken, flood((*peer).write)))},
	{Name: "rdma-stable-writes", Does: "16 connections that keep all their credits in WRITEs of one file that must be on the disk before the answer",
		run: withFile(keep(16, handshaken, flood((*peer).writeStable)))},
	{Name: "rdma-stable-files", Does: "the same, of 64 files", run: stableFiles},
	{Name: "rdma-storm", Does: "2,000 connections per second that make one NULL and reset",
		run: storm(nullOnce)},
	{Name: "rdma-burst", Does: "500 connections whose MPA requests come at the same moment, again and again",
		run: rdmaBurst},
	{Name: "rdma-garbage", Does: "2,000 connections per second that send bytes that are no MPA", run: garbage(func(t *Target) string { return t.RDMA })},
	{Name: "rdma-oversize", Does: "64 connections with Sends of 60 KB into receives of 4 KiB, again and again",
		run: keep(64, greeted, sendTooMuch)},
}

// every is the time between two bytes of a trickling attacker.
const every = 500 * time.Millisecond

func toRDMA(ctx context.Context, s *slot) (*net.TCPConn, error) {
	return dial(ctx, fromOne, s.target.RDMA)
}

func trickleHandshake(ctx context.Context, s *slot, conn *net.TCPConn) error {
	s.up()
	return trickle(ctx, conn, mpaRequest(), every)
}

func handshaken(ctx context.Context, s *slot) (*peer, error) {
	return dialPeer(ctx, fromOne, s.target.RDMA)
}

// greeted connects, makes a NULL call and counts the connection as open.
func greeted(ctx context.Context, s *slot) (*peer, error) {
	p, err := handshaken(ctx, s)
	if err == nil {
		_, err = p.null()
	}
	if err == nil {
		s.up()
	}
	return p, err
}

func ofManyMachines(ctx context.Context, s *slot) (*peer, error) {
	p, err := dialPeer(ctx, fromMany(s.i%s.scaled(machines)), s.target.RDMA)
	if err == nil {
		_, err = p.null()
	}
	return p, err
}

func holdPeer(_ context.Context, s *slot, p *peer) error { return s.hold(p.conn) }

// drain reads from a connection that already counts as open.
func drain(_ context.Context, _ *slot, p *peer) error {
	_, err := io.Copy(io.Discard, p.in)
	return err
}

func trickleFPDU(ctx context.Context, _ *slot, p *peer) error {
	return trickle(ctx, p.conn, p.sendFPDU(make([]byte, 3000)), every)
}

// askAll connects with a small receive buffer and asks for 1 MiB with every credit.
func askAll(ctx context.Context, s *slot) (*net.TCPConn, error) {
	conn, err := dialNarrow(ctx, fromOne, s.target.RDMA)
	if err != nil {
		return nil, err
	}
	p, err := newPeer(conn)
	if err != nil {
		return nil, err
	}
	return conn, p.useCredits(s, 1<<16, (*peer).read)
}

// useCredits makes as many calls as rdmad grants credits, at most most, and
// counts the connection as open.
func (p *peer) useCredits(s *slot, most int, call func(*peer, []byte) error) error {
	credits, err := p.null()
	if err != nil {
		return err
	}
	for range min(most, credits) {
		if err := call(p, s.file); err != nil {
			return err
		}
		s.calls.Add(1)
	}
	s.up()
	return nil
}

// offered is the number of WRITEs of one connection whose RDMA Reads the
// attacker does not answer.
const offered = 30

// offer connects and makes WRITEs whose data rdmad must read.
func offer(ctx context.Context, s *slot) (*peer, error) {
	p, err := handshaken(ctx, s)
	if err != nil {
		return nil, err
	}
	return p, p.useCredits(s, offered, (*peer).write)
}

func answerSlowly(ctx context.Context, _ *slot, p *peer) error {
	r, err := p.asked()
	if err != nil {
		return err
	}
	return trickle(ctx, p.conn, p.response(r), time.Second)
}

// asked waits for a Read Request.
func (p *peer) asked() (iwarp.ReadRequest, error) {
	for {
		op, b, err := p.receive()
		switch {
		case err != nil:
			return iwarp.ReadRequest{}, err
		case op == iwarp.OpReadRequest:
			return iwarp.DecodeReadRequest(b), nil
		}
	}
}

// flood keeps all credits of a connection in use.
func flood(call func(*peer, []byte) error) func(context.Context, *slot, *peer) error {
	return func(_ context.Context, s *slot, p *peer) error {
		if err := p.useCredits(s, 1<<16, call); err != nil {
			return err
		}
		return s.goOn(p, func() error { return call(p, s.file) })
	}
}

// goOn answers RDMA Reads, and makes the next call after each reply.
func (f *field) goOn(p *peer, call func() error) error {
	for {
		op, b, err := p.receive()
		switch {
		case err != nil:
		case op == iwarp.OpReadRequest:
			_, err = p.conn.Write(p.response(iwarp.DecodeReadRequest(b)))
		case op == iwarp.OpSend:
			f.calls.Add(1)
			err = call()
		}
		if err != nil {
			return err
		}
	}
}

// stableFiles makes stable WRITEs of 64 files.
func stableFiles(ctx context.Context, f *field) error {
	files, err := f.create(ctx, 64)
	if err != nil {
		return err
	}
	one := func(p *peer, _ []byte) error { return p.writeStable(files[rand.IntN(len(files))]) }
	return keep(16, handshaken, flood(one))(ctx, f)
}

func nullOnce(ctx context.Context, i int, t *Target) error {
	p, err := dialPeer(ctx, fromMany(i), t.RDMA)
	if err == nil {
		_, err = p.null()
	}
	return err
}

// rdmaBurst fills the queue of handshakes that wait to be accepted.
func rdmaBurst(ctx context.Context, f *field) error {
	for ctx.Err() == nil {
		f.burst(ctx, 500)
		f.ready()
		pause(ctx, time.Second)
	}
	return nil
}

// burst makes n connections. All handshakes begin when the last connection is
// made.
func (f *field) burst(ctx context.Context, n int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var dialed, all sync.WaitGroup
	dialed.Add(n)
	for i := range n {
		all.Go(func() {
			conn, err := dial(ctx, fromMany(i), f.target.RDMA)
			dialed.Done()
			dialed.Wait()
			if err == nil {
				_, err = newPeer(conn)
			}
			if err != nil {
				f.refused.Add(1)
			} else {
				f.opened.Add(1)
			}
		})
	}
	all.Wait()
}

// garbage sends bytes of no protocol that rdmad speaks.
func garbage(port func(*Target) string) work {
	return storm(func(ctx context.Context, i int, t *Target) error {
		conn, err := dial(ctx, fromMany(i), port(t))
		if err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "\xde\xad\xbe\xef is no protocol of RFC 5044 nor of RFC 5531"); err != nil {
			return err
		}
		if err := conn.CloseWrite(); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, conn) // until rdmad ends the connection
		return nil
	})
}

func sendTooMuch(ctx context.Context, s *slot, p *peer) error {
	if err := p.send(make([]byte, 60_000)); err != nil {
		return err
	}
	s.calls.Add(1)
	return drain(ctx, s, p)
}
