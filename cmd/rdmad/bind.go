package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/rdmad/rdmad/dataplane/manager"
)

// listenTCP binds an address; what says what it is for.
func listenTCP(ctx context.Context, what, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, bindError(what, address, err)
	}
	return l, nil
}

// bindError says what can't be had and why.
func bindError(what, address string, err error) error {
	return fmt.Errorf("%s %s: %w", what, address, manager.BindReason(err))
}

// openExport makes a directory to be exported if it is missing (its parent
// must be there: a mistyped path shall not become a tree) and makes sure that
// it can be read.
func openExport(path string) error {
	switch err := os.Mkdir(path, 0o755); { //nolint:gosec // all users of the clients go through it
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w; make the directory that it is in first", err)
	case err != nil && !errors.Is(err, os.ErrExist):
		return err
	}
	return readExport(path)
}

// readExport makes sure that a directory is there and can be read.
func readExport(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	info, err := d.Stat()
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	if _, err := d.Readdirnames(1); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
