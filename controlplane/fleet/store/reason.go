package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/dataplane/conditions"
)

// Reason returns the reason of a condition for an error of the fleet's etcd.
func Reason(err error) *conditions.Reason {
	switch {
	case errors.As(err, new(*ValueError)):
		return conditions.FleetUnreadable
	case errors.As(err, new(*TakenError)):
		return conditions.FleetNameTaken
	case errors.Is(err, rpctypes.ErrNoSpace):
		return conditions.FleetNoSpace
	case denied(err):
		return conditions.FleetDenied
	case strings.Contains(err.Error(), "x509: "), strings.Contains(err.Error(), "tls: "): // gRPC keeps the text alone
		return conditions.FleetUntrusted
	}
	return conditions.FleetAway
}

// Explain returns the reason why no endpoint answers, if that is TLS: etcd's client only
// reports that it waited. Otherwise it returns err.
func (s *Store) Explain(ctx context.Context, err error) error {
	if s.cfg.TLS == nil || Reason(err) != conditions.FleetAway {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	dialer := tls.Dialer{Config: s.cfg.TLS}
	for _, endpoint := range s.cfg.Endpoints {
		why := handshake(ctx, &dialer, strings.TrimPrefix(endpoint, "https://"))
		if why != nil && Reason(why) == conditions.FleetUntrusted {
			return fmt.Errorf("%s: %w", endpoint, why)
		}
	}
	return err
}

// handshake returns why a TLS connection can't be had. In TLS 1.3 a server looks at the client's
// certificate when the client has finished the handshake: its refusal is then read.
func handshake(ctx context.Context, d *tls.Dialer, address string) error {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(Timeout / 5)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func denied(err error) bool {
	var e rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &e) {
		code = e.Code()
	}
	return code == codes.PermissionDenied || code == codes.Unauthenticated ||
		errors.Is(err, rpctypes.ErrUserEmpty) || errors.Is(err, rpctypes.ErrAuthNotEnabled)
}
