package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// Program is an ONC RPC program in one version.
type Program struct{ Number, Version uint32 }

// Programs that are looked for.
var (
	NFS  = Program{100003, 3}
	Echo = Program{0x20020049, 1}
)

func (p Program) String() string {
	switch p.Number {
	case NFS.Number:
		return fmt.Sprintf("NFS version %d", p.Version)
	case Echo.Number:
		return fmt.Sprintf("echo version %d", p.Version)
	}
	return fmt.Sprintf("program %d version %d", p.Number, p.Version)
}

// Null calls procedure 0 of a program, which has no arguments, no results and no effect. It
// returns the time until the answer.
func (t *Target) Null(ctx context.Context, p Program, timeout time.Duration) (time.Duration, error) {
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	call := rpcrdma.Call{Program: p.Number, Version: p.Version}
	began := time.Now()
	err := t.Call(within, &call)
	return time.Since(began), err
}

// Find returns a program that answers NULL: the wanted one; if wanted is nil, NFS in a version
// that the server has, otherwise echo.
func (t *Target) Find(ctx context.Context, wanted *Program, timeout time.Duration) (Program, error) {
	if wanted != nil {
		_, err := t.Null(ctx, *wanted, timeout)
		return *wanted, t.Explain(ctx, *wanted, timeout, err)
	}
	p := NFS
	_, err := t.Null(ctx, p, timeout)
	var answer *oncrpc.AcceptError
	switch errors.As(err, &answer); {
	case answer == nil:
	case answer.Stat == oncrpc.ProgMismatch:
		p.Version = answer.High
		_, err = t.Null(ctx, p, timeout)
	case answer.Stat == oncrpc.ProgUnavail:
		p = Echo
		if _, err = t.Null(ctx, p, timeout); errors.As(err, &answer) && answer.Stat == oncrpc.ProgUnavail {
			return p, fmt.Errorf("%s answers, but serves neither NFS nor echo: name a program with --program and --program-version", t.Address)
		}
	}
	return p, t.Explain(ctx, p, timeout, err)
}

// NotServedError means that a server has other programs or versions.
type NotServedError struct{ text string }

func (e *NotServedError) Error() string { return e.text }

// Explain returns, in one line, why a call of a program failed. nil stays nil.
func (t *Target) Explain(ctx context.Context, p Program, timeout time.Duration, err error) error {
	var answer *oncrpc.AcceptError
	var denied *oncrpc.DeniedError
	var peer *rpcrdma.PeerError
	var lost *rpcrdma.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer a call within %v: set --timeout", t.Address, timeout)
	case errors.As(err, &answer) && answer.Stat == oncrpc.ProgUnavail:
		return &NotServedError{fmt.Sprintf("%s answers, but does not serve %v (PROG_UNAVAIL)", t.Address, p)}
	case errors.As(err, &answer) && answer.Stat == oncrpc.ProgMismatch:
		return &NotServedError{fmt.Sprintf("%s answers, but does not serve %v: it has versions %d to %d (PROG_MISMATCH)", t.Address, p, answer.Low, answer.High)}
	case errors.As(err, &answer):
		return fmt.Errorf("%s answers %v to %v", t.Address, answer.Stat, p)
	case errors.As(err, &denied):
		return fmt.Errorf("%s denied the call (%w)", t.Address, denied)
	case errors.Is(err, rpcrdma.ErrNoVersion):
		return fmt.Errorf("%s does not speak RPC-over-RDMA version 2 (ERR_VERS)", t.Address)
	case errors.As(err, &peer) && peer.Code == rpcrdma1.ErrVers:
		return fmt.Errorf("%s does not speak RPC-over-RDMA version %d: it has versions %d to %d (ERR_VERS)", t.Address, t.Info().RPCVersion, peer.Low, peer.High)
	case errors.As(err, &peer):
		return fmt.Errorf("%s refused the call: %w", t.Address, peer)
	case errors.As(err, &lost):
		return fmt.Errorf("%s ended the connection (%w)", t.Address, lost.Reason)
	}
	return fmt.Errorf("%s: %w", t.Address, err)
}
