// Package target makes rdmactl's own RPC-over-RDMA connections, to any server, and explains
// failures to the user.
package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Target is a server with a connection to it. Close it.
type Target struct {
	*rpcrdma.Client
	// Address is the address that was dialled.
	Address  string
	provider rdmacm.Provider
}

// Dial connects to host:port with a provider by name, within timeout. The error has the reason
// in one line, with the address. It is ctx.Err() if ctx ended.
func Dial(ctx context.Context, provider, address string, timeout time.Duration, s *rpcrdma.Settings) (*Target, error) {
	p, err := providers.Open(provider, providers.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := rpcrdma.Dial(within, p, address, rpcrdma.DialConfig{Settings: s, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		err = errors.Join(reason(address, timeout, err), p.Close())
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return &Target{Client: c, Address: address, provider: p}, nil
}

// Close ends the connection and frees everything.
func (t *Target) Close() error {
	return errors.Join(t.Client.Close(), t.provider.Close())
}

// reason says why there is no connection.
func reason(address string, timeout time.Duration, err error) error {
	var rejected *rdmacm.RejectedError
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("%s: no such host", address)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer the connection request within %v: is it an RDMA port? set --timeout", address, timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: connection refused: nothing listens there", address)
	case errors.Is(err, rdmacm.ErrUnreachable) && errors.As(err, &errno):
		return fmt.Errorf("%s: unreachable (%w)", address, errno)
	case errors.As(err, &rejected) && rejected.Reason() != "":
		return fmt.Errorf("%s rejected the connection: %s", address, rejected.Reason())
	case errors.As(err, &rejected):
		return fmt.Errorf("%s rejected the connection", address)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%s hung up on the connection request: is it an RDMA port?", address)
	}
	return fmt.Errorf("%s answers, but not as an RDMA port does: is it one? (%s)", address, cause(address, err))
}

// cause is what an error says after the address.
func cause(address string, err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, address+": "); i >= 0 {
		text = text[i+len(address)+2:]
	}
	return text
}
