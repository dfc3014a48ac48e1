// Command agent is the first process of a kernel guest. It mounts the virtual
// file systems, loads the virtio modules and sets up the network. Then it runs
// the commands that the test on the host sends over a virtio-serial port.
//
// On an error the agent prints it to the console and exits. The kernel then
// panics and QEMU ends. The test sees that the guest died, and has its console.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// portName is the name of the virtio-serial port. Package guest uses the same
// name.
const portName = "rdmad.agent"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := mountAll(); err != nil {
		return err
	}
	params, err := readParams("/proc/cmdline")
	if err != nil {
		return err
	}
	if err := setUp(params); err != nil {
		return err
	}
	port, err := openPort(portName)
	if err != nil {
		return err
	}
	defer port.Close()
	if params.shell {
		go keepShell()
	}
	return serve(bufio.NewReader(port), newJobs(&sender{w: port}, "/root"))
}

// serve reports that the guest is up and handles the host's frames until the
// stream ends.
func serve(in *bufio.Reader, jobs *jobs) error {
	if err := jobs.out.send(agentwire.Frame{Kind: agentwire.Ready}); err != nil {
		return err
	}
	for {
		frame, err := agentwire.Read(in)
		if err != nil {
			return fmt.Errorf("reading from the host: %w", err)
		}
		switch frame.Kind {
		case agentwire.Start:
			jobs.start(frame.ID, frame.Payload)
		case agentwire.Kill:
			jobs.kill(frame.ID)
		}
	}
}
