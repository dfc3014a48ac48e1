package main

import (
	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
)

// A referee watches each connection that rdmactl makes itself, in this process
// or as a command that a script runs.
func init() { providers.Around = refereetest.Fatal }
