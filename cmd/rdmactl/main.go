// Command rdmactl shows and tunes a running rdmad.
package main

import (
	"os"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/cli"
)

// version is set by the linker.
var version = "devel"

func main() { os.Exit(cli.Main(version)) }
