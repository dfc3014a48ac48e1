package siege

import (
	"context"
	"encoding/binary"
	"io"
	"net"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

var tcpAttacks = []Attack{
	{Name: "tcp-silent", Does: "300 connections to NFS over TCP that say nothing",
		run: keep(300, toTCP, hold)},
	{Name: "tcp-idle", Does: "300 connections with one NULL each",
		run: keep(300, toTCP, holdIdle)},
	{Name: "tcp-trickling", Does: "300 connections that send a record byte by byte",
		run: keep(300, toTCP, trickleRecord)},
	{Name: "tcp-mark-and-wait", Does: "128 connections that send the mark of a 1 MiB record and nothing more",
		run: keep(128, toTCP, holdMarked)},
	{Name: "tcp-zero-window", Does: "16 connections that ask for 64 READs of 1 MiB each, and read nothing",
		run: withFile(keep(16, tcpAskAll, readNothing))},
	{Name: "tcp-slow-reader", Does: "the same, reading 60 KB/s",
		run: withFile(keep(16, tcpAskAll, readSlowly))},
	{Name: "tcp-read-flood", Does: "16 connections that keep 64 READs of 1 MiB in flight, and read as fast as they can", run: withFile(keep(16, toTCP, tcpFlood))},
	{Name: "tcp-storm", Does: "2,000 connections per second that make one NULL and reset", run: storm(tcpNullOnce)},
	{Name: "tcp-garbage", Does: "2,000 connections per second that send bytes that are no record",
		run: garbage(func(t *Target) string { return t.TCP })},
	{Name: "tcp-oversize", Does: "64 connections with records of 2 GiB and of a million fragments, again and again", run: keep(64, toTCP, tcpSendTooMuch)},
}

func toTCP(ctx context.Context, s *slot) (*net.TCPConn, error) {
	return dial(ctx, fromOne, s.target.TCP)
}

// tcpNull makes a NULL call on a connection.
func tcpNull(conn net.Conn) error {
	if _, err := conn.Write(record(1, 0, nil)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, oncrpc.RecordMarkSize+oncrpc.AcceptedReplySize))
	return err
}

func holdIdle(_ context.Context, s *slot, conn *net.TCPConn) error {
	if err := tcpNull(conn); err != nil {
		return err
	}
	return s.hold(conn)
}

func trickleRecord(ctx context.Context, s *slot, conn *net.TCPConn) error {
	s.up()
	return trickle(ctx, conn, record(1, 0, make([]byte, 1000)), every)
}

func holdMarked(_ context.Context, s *slot, conn *net.TCPConn) error {
	if _, err := conn.Write(oncrpc.AppendRecordMark(nil, bulk, true)); err != nil {
		return err
	}
	return s.hold(conn)
}

// inFlight is how many READs an attacker keeps in flight on one connection.
const inFlight = 64

// askFor asks for 1 MiB of the large file.
func askFor(conn *net.TCPConn, s *slot, xid uint32) error {
	_, err := conn.Write(record(xid, nfstest.ProcRead, nfstest.ReadArgs(s.file, 0, bulk)))
	s.calls.Add(1)
	return err
}

// tcpAskAll connects with a small receive buffer and asks for 64 MiB.
func tcpAskAll(ctx context.Context, s *slot) (*net.TCPConn, error) {
	conn, err := dialNarrow(ctx, fromOne, s.target.TCP)
	for xid := uint32(0); err == nil && xid < inFlight; xid++ {
		err = askFor(conn, s, xid)
	}
	if err == nil {
		s.up()
	}
	return conn, err
}

func tcpFlood(_ context.Context, s *slot, conn *net.TCPConn) error {
	for xid := uint32(0); ; xid++ {
		if xid == inFlight {
			s.up()
		}
		if xid >= inFlight {
			if err := skipRecord(conn); err != nil {
				return err
			}
		}
		if err := askFor(conn, s, xid); err != nil {
			return err
		}
	}
}

// skipRecord reads and drops a record of one fragment.
func skipRecord(conn net.Conn) error {
	var mark [oncrpc.RecordMarkSize]byte
	if _, err := io.ReadFull(conn, mark[:]); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(mark[:])&oncrpc.MaxFragment))
	return err
}

func tcpNullOnce(ctx context.Context, i int, t *Target) error {
	conn, err := dial(ctx, fromMany(i), t.TCP)
	if err != nil {
		return err
	}
	return tcpNull(conn)
}

func tcpSendTooMuch(_ context.Context, s *slot, conn *net.TCPConn) error {
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
	_, err := io.Copy(io.Discard, conn)
	return err
}
