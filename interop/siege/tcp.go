package siege

import (
	"context"
	"encoding/binary"
	"io"
	"net"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

var tcpAttacks = []Attack{
	{Name: "tcp-silent", Does: "300 connections to NFS over TCP that say nothing",
		run: tcpSilent},
	{Name: "tcp-idle", Does: "300 connections with one NULL each",
		run: tcpIdle},
	{Name: "tcp-trickling", Does: "300 connections that send a record byte by byte",
		run: tcpTrickling},
	{Name: "tcp-mark-and-wait", Does: "128 connections that send the mark of a 1 MiB record and nothing more",
		run: tcpMarkAndWait},
	{Name: "tcp-zero-window", Does: "16 connections that ask for 64 READs of 1 MiB each, and read nothing",
		run: tcpZeroWindow},
	{Name: "tcp-slow-reader", Does: "the same, reading 60 KB/s",
		run: tcpSlowReader},
	{Name: "tcp-read-flood", Does: "16 connections that keep 64 READs of 1 MiB in flight, and read as fast as they can", run: tcpReadFlood},
	{Name: "tcp-storm", Does: "2,000 connections per second that make one NULL and reset", run: tcpStorm},
	{Name: "tcp-garbage", Does: "2,000 connections per second that send bytes that are no record",
		run: tcpGarbage},
	{Name: "tcp-oversize", Does: "64 connections with records of 2 GiB and of a million fragments, again and again", run: tcpOversize},
}

func tcpSilent(ctx context.Context, f *field) error { return silent(ctx, f, f.target.TCP, 300) }

// tcpNull makes a NULL call on a connection.
func tcpNull(conn net.Conn) error {
	if _, err := conn.Write(record(1, 0, nil)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, oncrpc.RecordMarkSize+oncrpc.AcceptedReplySize))
	return err
}

func tcpIdle(ctx context.Context, f *field) error {
	return f.slots(ctx, 300, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.TCP)
		if err != nil {
			return err
		}
		if err := tcpNull(conn); err != nil {
			return err
		}
		return s.hold(conn)
	})
}

func tcpTrickling(ctx context.Context, f *field) error {
	return f.slots(ctx, 300, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.TCP)
		if err != nil {
			return err
		}
		s.up()
		return trickle(ctx, conn, record(1, 0, make([]byte, 1000)), every)
	})
}

func tcpMarkAndWait(ctx context.Context, f *field) error {
	return f.slots(ctx, 128, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.TCP)
		if err != nil {
			return err
		}
		if _, err := conn.Write(oncrpc.AppendRecordMark(nil, bulk, true)); err != nil {
			return err
		}
		return s.hold(conn)
	})
}

// inFlight is how many READs an attacker has on one connection.
const inFlight = 64

// tcpAskAll connects with a small receive buffer and asks for 64 MiB.
func tcpAskAll(ctx context.Context, s *slot, file []byte) (*net.TCPConn, error) {
	conn, err := dialNarrow(ctx, fromOne, s.target.TCP)
	if err != nil {
		return nil, err
	}
	for xid := range uint32(inFlight) {
		if _, err := conn.Write(record(xid, procRead, readArgs(file, 0, bulk))); err != nil {
			return nil, err
		}
		s.calls.Add(1)
	}
	s.up()
	return conn, nil
}

func tcpZeroWindow(ctx context.Context, f *field) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 16, func(ctx context.Context, s *slot) error {
		conn, err := tcpAskAll(ctx, s, file)
		if err != nil {
			return err
		}
		return unread(ctx, conn)
	})
}

func tcpSlowReader(ctx context.Context, f *field) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 16, func(ctx context.Context, s *slot) error {
		conn, err := tcpAskAll(ctx, s, file)
		if err != nil {
			return err
		}
		return slowly(ctx, conn, 60_000)
	})
}

func tcpReadFlood(ctx context.Context, f *field) error {
	file, err := f.handle(ctx)
	if err != nil {
		return err
	}
	return f.slots(ctx, 16, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.TCP)
		if err != nil {
			return err
		}
		xid := uint32(0)
		for ; xid < inFlight; xid++ {
			if _, err := conn.Write(record(xid, procRead, readArgs(file, 0, bulk))); err != nil {
				return err
			}
		}
		s.up()
		for ; ; xid++ {
			if err := skipRecord(conn); err != nil {
				return err
			}
			f.calls.Add(1)
			if _, err := conn.Write(record(xid, procRead, readArgs(file, 0, bulk))); err != nil {
				return err
			}
		}
	})
}

// skipRecord reads a record of one fragment and forgets it.
func skipRecord(conn net.Conn) error {
	var mark [oncrpc.RecordMarkSize]byte
	if _, err := io.ReadFull(conn, mark[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(mark[:])&oncrpc.MaxFragment))
	return err
}

func tcpStorm(ctx context.Context, f *field) error {
	return f.storm(ctx, 2000, 64, func(ctx context.Context, i int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		conn, err := dial(ctx, fromMany(i), f.target.TCP)
		if err != nil {
			return err
		}
		return tcpNull(conn)
	})
}

func tcpGarbage(ctx context.Context, f *field) error { return garbage(ctx, f, f.target.TCP) }

func tcpOversize(ctx context.Context, f *field) error {
	return f.slots(ctx, 64, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.TCP)
		if err != nil {
			return err
		}
		s.up()
		b := oncrpc.AppendRecordMark(nil, oncrpc.MaxFragment, true)
		if s.i%2 == 0 {
			b = nil
			for range 1_000_000 {
				b = oncrpc.AppendRecordMark(b, 0, false)
			}
		}
		s.calls.Add(1)
		if _, err := conn.Write(append(b, make([]byte, bulk)...)); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, conn)
		return err
	})
}
