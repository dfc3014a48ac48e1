package siege

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Attackers connect from addresses other than 127.0.0.1, the address of the
// innocent clients. A limit per peer then does not affect the clients. fromOne
// is the source address of an attacker on one machine. fromMany is the source
// address of connection i of an attacker on many machines. Storms need many
// addresses, too, because one address has too few ports.
var fromOne = source(0)

const machines = 100

func fromMany(i int) net.IP { return source(1 + i%machines) }

func source(i int) net.IP { return net.IPv4(127, 66, byte(i>>8), byte(i)) }

// dial connects from an address. The connection closes when ctx ends.
func dial(ctx context.Context, from net.IP, address string) (*net.TCPConn, error) {
	return dialWith(ctx, &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}, address)
}

// dialNarrow is dial with a receive buffer of a few kilobytes. Data that the
// attacker does not read stays in rdmad.
func dialNarrow(ctx context.Context, from net.IP, address string) (*net.TCPConn, error) {
	return dialWith(ctx, &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}, Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) }); e != nil {
			return e
		}
		return err
	}}, address)
}

func dialWith(ctx context.Context, d *net.Dialer, address string) (*net.TCPConn, error) {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	// Closing with a reset does not occupy the port for a minute.
	if err := tcp.SetLinger(0); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { tcp.Close() })
	return tcp, nil
}

// unread reads nothing and waits until rdmad or ctx ends the connection.
func unread(ctx context.Context, conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		var info *unix.TCPInfo
		if e := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); e != nil {
			return e
		}
		if err != nil || info.State != unix.BPF_TCP_ESTABLISHED {
			return fmt.Errorf("ended: %w", err)
		}
		pause(ctx, 100*time.Millisecond)
	}
	return ctx.Err()
}

// trickle writes b one byte at a time.
func trickle(ctx context.Context, conn net.Conn, b []byte, every time.Duration) error {
	for i := 0; ctx.Err() == nil && i < len(b); i++ {
		if _, err := conn.Write(b[i : i+1]); err != nil {
			return err
		}
		pause(ctx, every)
	}
	return ctx.Err()
}

// slowly reads and drops a limited number of bytes per second.
func slowly(ctx context.Context, conn net.Conn, perSecond int) error {
	b := make([]byte, max(perSecond/10, 1))
	for ctx.Err() == nil {
		if _, err := conn.Read(b); err != nil {
			return err
		}
		pause(ctx, time.Second/10)
	}
	return ctx.Err()
}
