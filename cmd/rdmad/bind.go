package main

import (
	"fmt"

	"github.com/rdmad/rdmad/dataplane/manager"
)

// bindError returns the error for an address that can't be bound. what is its purpose.
func bindError(what, address string, err error) error {
	return fmt.Errorf("%s %s: %w", what, address, manager.BindReason(err))
}
