package guest

import (
	"io"
	"os"
)

// consoleFiles are QEMU's standard files: the terminal for a guest with a
// shell, else nothing to read and the console's memory to write to.
func consoleFiles(c *console, o Options) (in io.Reader, out io.Writer) {
	if o.Shell {
		return os.Stdin, os.Stdout
	}
	return nil, c
}
