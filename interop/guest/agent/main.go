// Command agent is the first process of a kernel guest. It mounts the virtual
// file systems, loads the virtio modules, sets up the network, and then runs
// what the test on the host asks for over a virtio-serial port.
//
// When it can't go on it prints why to the console and exits, upon which the
// kernel panics and QEMU ends: the test sees a guest that died and its console.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/rdmad/rdmad/interop/guest/agentwire"
)

// portName is the virtio-serial port's name, agreed with package guest.
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

// serve says that the guest is up and obeys the host until the stream ends.
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
