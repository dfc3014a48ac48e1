package grpcapi

import (
	"context"
	"log/slog"
	"net"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// doorman gives clients their places once they are identified.
type doorman struct {
	credentials.TransportCredentials
	places *Places
	// local is the user of this machine whose connection it is; nil with TLS.
	local func(net.Conn) (uid uint32, ok bool)
	log   *slog.Logger
}

// arrival is the key of a connection that isn't identified yet. Without TLS a local
// user is known at once, and takes places from itself alone.
func (d *doorman) arrival(c net.Conn) connlimit.Key {
	if d.local != nil {
		if uid, ok := d.local(c); ok {
			return connlimit.Name("uid " + strconv.FormatUint(uint64(uid), 10))
		}
	}
	return port.Key(c.RemoteAddr())
}

// ServerHandshake implements credentials.TransportCredentials.
func (d *doorman) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if known, ok := c.(*identified); ok {
		level := credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}
		return c, auth.Info{CommonAuthInfo: level, Identity: known.client}, nil
	}
	conn, info, err := d.TransportCredentials.ServerHandshake(c)
	if err != nil {
		return nil, nil, err
	}
	p, a := c.(*port.Conn), info.(auth.Info) // all others are identified
	key, class := connlimit.Name(a.Identity.Client), connlimit.Ordinary
	if a.Identity.Kept {
		class = connlimit.Reserved
	}
	if a.Refused = p.Enter(d.places.Clients, key, class); a.Refused == nil {
		return newInUse(conn, p), a, nil
	}
	d.log.Warn("connection refused", "peer", a.Identity.Client, "origin", a.Identity.Origin, "reason", a.Refused.Error())
	if p.Enter(d.places.turnedAway, key, class) != nil {
		conn.Close()
		return nil, nil, a.Refused
	}
	return conn, a, nil // it stays half-open, and ages
}

// placed refuses the calls of a client whose connection has no place, for the middleware of
// package grpcauth.
func placed(ctx context.Context) (context.Context, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ctx, nil
	}
	if info, ok := p.AuthInfo.(auth.Info); ok && info.Refused != nil {
		return nil, withInfo(codes.ResourceExhausted, info.Refused, rdmadv1.ErrorReason_ERROR_REASON_LIMIT)
	}
	return ctx, nil
}
