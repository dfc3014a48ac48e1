package main

import (
	"os"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
)

// unjudgedVar is the variable that leaves out referees, which cost time: `make
// load` measures without them.
const unjudgedVar = "TEST_UNJUDGED"

// A referee watches each connection of each rdmad that a test runs, in this process
// or as a command.
func init() {
	if os.Getenv(unjudgedVar) == "" {
		providers.Around = refereetest.Fatal
	}
}
