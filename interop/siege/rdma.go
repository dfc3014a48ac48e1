package siege

import (
	"context"
	"io"
	"sync"
	"time"
)

var rdmaAttacks = []Attack{
	{Name: "rdma-silent", Does: "500 connections to the RDMA port that say nothing", run: rdmaSilent},
	{Name: "rdma-trickling-handshake", Does: "200 connections that send the MPA request byte by byte",
		run: rdmaTricklingHandshake},
	{Name: "rdma-trickling-fpdu", Does: "200 connections that send a call byte by byte",
		run: rdmaTricklingFPDU},
	{Name: "rdma-half-open", Does: "5,000 connections that end their handshake and say nothing more",
		run: rdmaHalfOpen},
	{Name: "rdma-idle", Does: "1,500 connections of one machine with one NULL each",
		run: rdmaIdle},
	{Name: "rdma-idle-many-machines", Does: "4,500 connections of 100 machines with one NULL each",
		run: rdmaIdleManyMachines},
	{Name: "rdma-zero-window", Does: "32 connections that ask for all the 1 MiB READs that their credits allow, and read nothing",
		run: rdmaZeroWindow},
	{Name: "rdma-slow-reader", Does: "the same, reading 60 KB/s",
		run: rdmaSlowReader},
	{Name: "rdma-never-answering", Does: "200 connections with 30 WRITEs of 1 MiB each that never answer an RDMA Read",
		run: rdmaNeverAnswering},
	{Name: "rdma-slowly-answering", Does: "the same, answering with 1 byte/s",
		run: rdmaSlowlyAnswering},
	{Name: "rdma-read-flood", Does: "16 connections that keep all their credits in 1 MiB READs, and read as fast as they can",
		run: rdmaReadFlood},
	{Name: "rdma-write-flood", Does: "16 connections that keep all their credits in 1 MiB WRITEs", run: rdmaWriteFlood},
	{Name: "rdma-storm", Does: "2,000 connections per second that make one NULL and reset",
		run: rdmaStorm},
	{Name: "rdma-burst", Does: "500 connections whose MPA requests come at the same moment, again and again",
		run: rdmaBurst},
	{Name: "rdma-garbage", Does: "2,000 connections per second that send bytes that are no MPA", run: rdmaGarbage},
	{Name: "rdma-oversize", Does: "64 connections with Sends of 60 KB into receives of 4 KiB, again and again",
		run: rdmaOversize},
}

// every is the time between two bytes of a trickling attacker.
const every = 500 * time.Millisecond

func rdmaSilent(ctx context.Context, f *field) error { return silent(ctx, f, f.target.RDMA, 500) }

// silent keeps connections that send nothing.
func silent(ctx context.Context, f *field, address string, n int) error {
	return f.slots(ctx, n, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, address)
		if err != nil {
			return err
		}
		return s.hold(conn)
	})
}

func rdmaTricklingHandshake(ctx context.Context, f *field) error {
	return f.slots(ctx, 200, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.RDMA)
		if err != nil {
			return err
		}
		s.up()
		return trickle(ctx, conn, mpaRequest(), every)
	})
}

func rdmaTricklingFPDU(ctx context.Context, f *field) error {
	return f.slots(ctx, 200, func(ctx context.Context, s *slot) error {
		p, err := f.client(ctx, s)
		if err != nil {
			return err
		}
		return trickle(ctx, p.conn, p.sendFPDU(make([]byte, 3000)), every)
	})
}

// client connects, makes a NULL call and counts the connection as open.
func (f *field) client(ctx context.Context, s *slot) (*peer, error) {
	p, err := dialPeer(ctx, fromOne, f.target.RDMA)
	if err == nil {
		_, err = p.null()
	}
	if err == nil {
		s.up()
	}
	return p, err
}

func rdmaHalfOpen(ctx context.Context, f *field) error {
	return f.slots(ctx, f.scaled(5000), func(ctx context.Context, s *slot) error {
		p, err := dialPeer(ctx, fromOne, f.target.RDMA)
		if err != nil {
			return err
		}
		return s.hold(p.conn)
	})
}

func rdmaIdle(ctx context.Context, f *field) error {
	return f.slots(ctx, f.scaled(1500), func(ctx context.Context, s *slot) error {
		p, err := f.client(ctx, s)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, p.conn)
		return err
	})
}

func rdmaIdleManyMachines(ctx context.Context, f *field) error {
	return f.slots(ctx, f.scaled(4500), func(ctx context.Context, s *slot) error {
		p, err := dialPeer(ctx, fromMany(s.i%f.scaled(machines)), f.target.RDMA)
		if err != nil {
			return err
		}
		if _, err := p.null(); err != nil {
			return err
		}
		return s.hold(p.conn)
	})
}

// askAll connects with a small receive buffer and asks for 1 MiB with every credit.
func askAll(ctx context.Context, s *slot, file []byte) (*peer, error) {
	conn, err := dialNarrow(ctx, fromOne, s.target.RDMA)
	if err != nil {
		return nil, err
	}
	p, err := newPeer(conn)
	if err != nil {
		return nil, err
	}
	credits, err := p.null()
	if err != nil {
		return nil, err
	}
	for range credits {
		if err := p.read(file); err != nil {
			return nil, err
		}
		s.calls.Add(1)
	}
	s.up()
	return p, nil
}

func rdmaZeroWindow(ctx context.Context, f *field) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 32, func(ctx context.Context, s *slot) error {
		p, err := askAll(ctx, s, file)
		if err != nil {
			return err
		}
		return unread(ctx, p.conn)
	})
}

func rdmaSlowReader(ctx context.Context, f *field) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 32, func(ctx context.Context, s *slot) error {
		p, err := askAll(ctx, s, file)
		if err != nil {
			return err
		}
		return slowly(ctx, p.conn, 60_000)
	})
}

// offered is the number of WRITEs that a client makes whose RDMA Reads it does not
// answer.
const offered = 30

// offer connects and makes WRITEs whose data rdmad has to fetch.
func offer(ctx context.Context, s *slot, file []byte) (*peer, error) {
	p, err := dialPeer(ctx, fromOne, s.target.RDMA)
	if err != nil {
		return nil, err
	}
	credits, err := p.null()
	if err != nil {
		return nil, err
	}
	for range min(offered, credits) {
		if err := p.write(file); err != nil {
			return nil, err
		}
		s.calls.Add(1)
	}
	s.up()
	return p, nil
}

func rdmaNeverAnswering(ctx context.Context, f *field) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 200, func(ctx context.Context, s *slot) error {
		p, err := offer(ctx, s, file)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, p.in)
		return err
	})
}

func rdmaSlowlyAnswering(ctx context.Context, f *field) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 200, func(ctx context.Context, s *slot) error {
		p, err := offer(ctx, s, file)
		if err != nil {
			return err
		}
		r, err := p.asked()
		if err != nil {
			return err
		}
		return trickle(ctx, p.conn, p.response(r), time.Second)
	})
}

// asked waits for a Read Request.
func (p *peer) asked() (readRequest, error) {
	for {
		op, b, err := p.receive()
		switch {
		case err != nil:
			return readRequest{}, err
		case op == opReadRequest:
			return decodeReadRequest(b)
		}
	}
}

func rdmaReadFlood(ctx context.Context, f *field) error {
	return f.flood(ctx, (*peer).read)
}

func rdmaWriteFlood(ctx context.Context, f *field) error {
	return f.flood(ctx, (*peer).write)
}

// flood keeps every credit of 16 connections in use.
func (f *field) flood(ctx context.Context, call func(*peer, []byte) error) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 16, func(ctx context.Context, s *slot) error {
		p, err := dialPeer(ctx, fromOne, f.target.RDMA)
		if err != nil {
			return err
		}
		credits, err := p.null()
		if err != nil {
			return err
		}
		for range credits {
			if err := call(p, file); err != nil {
				return err
			}
		}
		s.up()
		return f.goOn(p, func() error { return call(p, file) })
	})
}

// goOn answers RDMA Reads, and replies with the next call.
func (f *field) goOn(p *peer, call func() error) error {
	for {
		op, b, err := p.receive()
		switch {
		case err != nil:
		case op == opReadRequest:
			var r readRequest
			if r, err = decodeReadRequest(b); err == nil {
				_, err = p.conn.Write(p.response(r))
			}
		case op == opSend:
			f.calls.Add(1)
			err = call()
		}
		if err != nil {
			return err
		}
	}
}

func rdmaStorm(ctx context.Context, f *field) error {
	return f.storm(ctx, 2000, 64, func(ctx context.Context, i int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // resets the connection
		p, err := dialPeer(ctx, fromMany(i), f.target.RDMA)
		if err != nil {
			return err
		}
		_, err = p.null()
		return err
	})
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

// burst makes n connections, and all handshakes when the last one is there.
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

func rdmaGarbage(ctx context.Context, f *field) error { return garbage(ctx, f, f.target.RDMA) }

// garbage sends bytes of no protocol that rdmad speaks.
func garbage(ctx context.Context, f *field, address string) error {
	return f.storm(ctx, 2000, 64, func(ctx context.Context, i int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		conn, err := dial(ctx, fromMany(i), address)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(conn, "\xde\xad\xbe\xef is no protocol of RFC 5044 nor of RFC 5531"); err != nil {
			return err
		}
		if err := conn.CloseWrite(); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, conn) // until rdmad has ended it
		return nil
	})
}

func rdmaOversize(ctx context.Context, f *field) error {
	return f.slots(ctx, 64, func(ctx context.Context, s *slot) error {
		p, err := f.client(ctx, s)
		if err != nil {
			return err
		}
		if err := p.send(make([]byte, 60_000)); err != nil {
			return err
		}
		s.calls.Add(1)
		_, err = io.Copy(io.Discard, p.conn)
		return err
	})
}
