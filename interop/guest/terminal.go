package guest

import (
	"os"
	"os/exec"
)

// attachConsole sets QEMU's standard files. With a shell these are the
// terminal's. Otherwise there is no input, and c keeps the output.
func attachConsole(cmd *exec.Cmd, c *console, o Options) {
	if o.Shell {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return
	}
	cmd.Stdout, cmd.Stderr = c, c
}
