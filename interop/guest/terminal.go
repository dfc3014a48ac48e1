package guest

import (
	"os"
	"os/exec"
)

// attachConsole gives QEMU its standard files: the terminal for a guest with a
// shell, else nothing to read and the console's memory to write to.
func attachConsole(cmd *exec.Cmd, c *console, o Options) {
	if o.Shell {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return
	}
	cmd.Stdout, cmd.Stderr = c, c
}
