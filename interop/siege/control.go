package siege

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

var controlAttacks = []Attack{
	{Name: "control-silent", Does: "300 connections to the control plane that say nothing, by the operator's own user",
		run: keep(300, toControl, hold)},
	{Name: "control-silent-user", Does: "the same, by a local user on the Unix socket, who is a viewer", Control: Socket, Root: true,
		run: asNobody(keep(300, toControl, hold))},
	{Name: "control-idle", Does: "300 connections of clients that asked for the status once, by the operator's own user",
		run: keep(300, toControlClient, idleClient)},
	{Name: "control-idle-viewer", Does: "the same, by one certificate of a viewer", Control: TLS,
		run: keep(300, toControlClient, idleClient)},
	{Name: "control-idle-user", Does: "the same, by a local user on the Unix socket, who is a viewer", Control: Socket, Root: true,
		run: asNobody(keep(300, toControlClient, idleClient))},
	{Name: "control-half-tls", Does: "300 TLS handshakes that stop half way", Control: TLS, run: controlHalfTLS},
	{Name: "control-pings", Does: "16 connections that send HTTP/2 pings as fast as they can", run: keep(16, toControl, sendPings)},
	{Name: "control-requests", Does: "16 connections that ask for the status as fast as they can, by a viewer's certificate", Control: TLS,
		run: keep(16, toControlClient, request(nil))},
	{Name: "control-oversize", Does: "16 connections with requests of 4 MiB, by a viewer's certificate", Control: TLS, run: keep(16, toControlClient, request(oversize))},
	{Name: "control-storm", Does: "2,000 connections per second that reset", run: storm(resetControl)},
}

// controlDial connects to the control plane. On TCP it connects from a given
// address.
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

// controlClient makes a client of the control plane on a connection of its own.
// With TLS, name is the name of its certificate.
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
			// This context ends once the connection is established.
			return controlDial(context.WithoutCancel(ctx), from, t.Control)
		}))
}

// viewer is the attackers' certificate.
const viewer = "viewer"

func toControl(ctx context.Context, s *slot) (net.Conn, error) {
	return controlDial(ctx, fromOne, s.target.Control)
}

func toControlClient(_ context.Context, s *slot) (*grpc.ClientConn, error) {
	return controlClient(&s.target, fromOne, viewer)
}

func idleClient(ctx context.Context, s *slot, conn *grpc.ClientConn) error {
	defer conn.Close()
	// A connection stays open even if rdmad limits the client's rate.
	if _, err := rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, &rdmadv1.GetStatusRequest{}); err != nil && conn.GetState() != connectivity.Ready {
		return err
	}
	s.up()
	// This returns when rdmad ends the connection. The client answers
	// keepalives meanwhile.
	conn.WaitForStateChange(ctx, connectivity.Ready)
	return nil
}

// nobody is the user ID of a user without rights.
const nobody = 65534

// asNobody runs an attack as a user without rights.
func asNobody(attack work) work {
	return func(ctx context.Context, f *field) error {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
		return attack(ctx, f)
	}
}

// cut is a connection over which only a limited number of bytes can be sent.
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
		// Half of the handshakes stop within the ClientHello, half after it.
		c := &cut{Conn: conn, left: 200}
		if s.i%2 == 0 {
			c.left = 2000
		}
		_ = tls.Client(c, config).HandshakeContext(ctx) // waits for an answer that never comes
		_, err = io.Copy(io.Discard, conn)
		return err
	})
}

func sendPings(_ context.Context, s *slot, conn net.Conn) error {
	// RFC 9113 §3.4, §6.5, §6.7.
	start := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)
	ping := append([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0}, make([]byte, 8)...)
	pings := bytes.Repeat(ping, 100)
	if _, err := conn.Write(start); err != nil {
		return err
	}
	s.up()
	go io.Copy(io.Discard, conn)
	for {
		if _, err := conn.Write(pings); err != nil {
			return err
		}
		s.calls.Add(100)
	}
}

// request makes requests as fast as they are answered. unknown returns the
// bytes of fields that the request does not have.
func request(unknown func() []byte) func(context.Context, *slot, *grpc.ClientConn) error {
	return func(ctx context.Context, s *slot, conn *grpc.ClientConn) error {
		defer conn.Close()
		r := new(rdmadv1.GetStatusRequest)
		if unknown != nil {
			r.ProtoReflect().SetUnknown(unknown())
		}
		for ctx.Err() == nil {
			if _, err := rdmadv1.NewStatusServiceClient(conn).GetStatus(ctx, r); err != nil && conn.GetState() != connectivity.Ready {
				return err
			}
			if !s.isUp {
				s.up()
			}
			s.calls.Add(1)
		}
		return nil
	}
}

// oversize returns field 1000 with 4 MiB of bytes.
func oversize() []byte {
	return append([]byte{0xc2, 0x3e, 0x80, 0x80, 0x80, 0x02}, make([]byte, 4<<20)...)
}

func resetControl(ctx context.Context, i int, t *Target) error {
	_, err := dial(ctx, fromMany(i), t.Control)
	return err
}

// clientTLS returns the TLS configuration of a client with a certificate of
// the CA in dir.
func clientTLS(dir, name string) (*tls.Config, error) {
	c, err := authtest.Client(filepath.Join(dir, "ca.pem"), filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
	if err == nil {
		c.ServerName = "127.0.0.1"
	}
	return c, err
}

// statusAs asks for the status on a new connection. It fails if the role is not
// admin.
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
