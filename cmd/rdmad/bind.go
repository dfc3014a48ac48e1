package main

import (
	"context"
	"fmt"
	"net"

	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// listenTCP binds an address. what is its purpose, for errors.
func listenTCP(ctx context.Context, what, address string) (net.Listener, error) {
	l, err := tcpaddr.Listen(ctx, address)
	if err != nil {
		return nil, bindError(what, address, err)
	}
	return l, nil
}

// bindError returns the error for an address that can't be bound.
func bindError(what, address string, err error) error {
	return fmt.Errorf("%s %s: %w", what, address, manager.BindReason(err))
}
