package siege

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

var controlAttacks = []Attack{
	{Name: "control-silent", Does: "300 connections to the control plane that say nothing, by the operator's own user",
		run: controlSilent},
	{Name: "control-silent-user", Does: "the same, by a local user on the Unix socket, who is a viewer", Control: Socket, Root: true,
		run: asNobody(controlSilent)},
	{Name: "control-idle", Does: "300 connections of clients that asked for the status once, by the operator's own user",
		run: controlIdle},
	{Name: "control-idle-viewer", Does: "the same, by one certificate of a viewer", Control: TLS,
		run: controlIdle},
	{Name: "control-idle-user", Does: "the same, by a local user on the Unix socket, who is a viewer", Control: Socket, Root: true,
		run: asNobody(controlIdle)},
	{Name: "control-half-tls", Does: "300 TLS handshakes that stop half way", Control: TLS, run: controlHalfTLS},
	{Name: "control-pings", Does: "16 connections that send HTTP/2 pings as fast as they can", run: controlPings},
	{Name: "control-requests", Does: "16 connections that ask for the status as fast as they can, by a viewer's certificate", Control: TLS,
		run: controlRequests},
	{Name: "control-oversize", Does: "16 connections with requests of 4 MiB, by a viewer's certificate", Control: TLS, run: controlOversize},
	{Name: "control-storm", Does: "2,000 connections per second that reset", run: controlStorm},
}

// controlDial connects to the control plane, from an address when it is on TCP.
func controlDial(ctx context.Context, from net.IP, address string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			context.AfterFunc(ctx, func() { conn.Close() })
		}
		return conn, err
	}
	return dial(ctx, from, address)
}

// controlClient makes a client of the control plane, on a connection of its
// own. name is that of its certificate, with TLS.
func controlClient(t *Target, from net.IP, name string) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if t.Certificates != "" {
		config, err := clientTLS(t.Certificates, name)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
	}
	return grpc.NewClient("passthrough:///rdmad", grpc.WithTransportCredentials(creds), grpc.WithAuthority("127.0.0.1"), grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			// This context ends when the connection is there.
			return controlDial(context.WithoutCancel(ctx), from, t.Control)
		}))
}

// viewer is the attackers' certificate.
const viewer = "viewer"

func controlSilent(ctx context.Context, f *field) error {
	return f.slots(ctx, 300, func(ctx context.Context, s *slot) error {
		conn, err := controlDial(ctx, fromOne, f.target.Control)
		if err != nil {
			return err
		}
		return s.hold(conn)
	})
}

func controlIdle(ctx context.Context, f *field) error {
	return f.slots(ctx, 300, func(ctx context.Context, s *slot) error {
		conn, err := controlClient(&f.target, fromOne, viewer)
		if err != nil {
			return err
		}
		defer conn.Close()
		// A client over its rate is still a connection.
		if _, err := rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, &rdmadv1.GetStatusRequest{}); err != nil && conn.GetState() != connectivity.Ready {
			return err
		}
		s.up()
		// Ends when rdmad ends the connection; keepalives are answered meanwhile.
		conn.WaitForStateChange(ctx, connectivity.Ready)
		return nil
	})
}

// nobody is a user without rights.
const nobody = 65534

// asNobody makes an attack as a user without rights.
func asNobody(attack func(context.Context, *field) error) func(context.Context, *field) error {
	return func(ctx context.Context, f *field) error {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
		return attack(ctx, f)
	}
}

// cut is a connection over which only a number of bytes can be sent.
type cut struct {
	net.Conn
	left int
}

func (c *cut) Write(b []byte) (int, error) {
	n := min(len(b), c.left)
	c.left -= n
	_, err := c.Conn.Write(b[:n])
	return len(b), err
}

func controlHalfTLS(ctx context.Context, f *field) error {
	config, err := clientTLS(f.target.Certificates, viewer)
	if err != nil {
		return err
	}
	return f.slots(ctx, 300, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.Control)
		if err != nil {
			return err
		}
		s.up()
		// Half of them stop within the ClientHello, half after it.
		c := &cut{Conn: conn, left: 200}
		if s.i%2 == 0 {
			c.left = 2000
		}
		_ = tls.Client(c, config).HandshakeContext(ctx) // waits for what doesn't come
		_, err = io.Copy(io.Discard, conn)
		return err
	})
}

func controlPings(ctx context.Context, f *field) error {
	// RFC 9113 §3.4, §6.5, §6.7.
	start := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)
	ping := append([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0}, make([]byte, 8)...)
	pings := make([]byte, 0, 100*len(ping))
	for range 100 {
		pings = append(pings, ping...)
	}
	return f.slots(ctx, 16, func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, f.target.Control)
		if err != nil {
			return err
		}
		if _, err := conn.Write(start); err != nil {
			return err
		}
		s.up()
		go io.Copy(io.Discard, conn)
		for {
			if _, err := conn.Write(pings); err != nil {
				return err
			}
			f.calls.Add(100)
		}
	})
}

func controlRequests(ctx context.Context, f *field) error {
	return f.requests(ctx, &rdmadv1.GetStatusRequest{})
}

func controlOversize(ctx context.Context, f *field) error {
	large := &rdmadv1.GetStatusRequest{}
	// Field 1000, which the request does not have: 4 MiB of bytes.
	large.ProtoReflect().SetUnknown(append([]byte{0xc2, 0x3e, 0x80, 0x80, 0x80, 0x02}, make([]byte, 4<<20)...))
	return f.requests(ctx, large)
}

// requests makes requests on 16 connections as fast as they are answered.
func (f *field) requests(ctx context.Context, r *rdmadv1.GetStatusRequest) error {
	return f.slots(ctx, 16, func(ctx context.Context, s *slot) error {
		conn, err := controlClient(&f.target, fromOne, viewer)
		if err != nil {
			return err
		}
		defer conn.Close()
		for ctx.Err() == nil {
			if _, err := rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, r); err != nil && conn.GetState() != connectivity.Ready {
				return err
			}
			if !s.isUp {
				s.up()
			}
			f.calls.Add(1)
		}
		return nil
	})
}

func controlStorm(ctx context.Context, f *field) error {
	return f.storm(ctx, 2000, 64, func(ctx context.Context, i int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := dial(ctx, fromMany(i), f.target.Control)
		return err
	})
}

// clientTLS is the TLS of a client with a certificate of writeCertificates.
func clientTLS(dir, name string) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	pool, err := poolOf(ca)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}, nil
}

// statusAs asks for the status on a connection of its own.
func statusAs(ctx context.Context, t *Target, from net.IP, name string) error {
	conn, err := controlClient(t, from, name)
	if err != nil {
		return err
	}
	defer conn.Close()
	res, err := rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, &rdmadv1.GetStatusRequest{})
	if err != nil {
		return err
	}
	if res.GetRole() != rdmadv1.Role_ROLE_ADMIN {
		return fmt.Errorf("role %v", res.GetRole())
	}
	return nil
}
