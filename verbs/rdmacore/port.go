//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// port is a port of a device, as the kernel shows it. Number 0 is none.
type port struct {
	device string
	number int
}

// trouble returns why nothing can arrive at the port, or nil. A port whose state can't be
// read is not known to be wrong.
func (p port) trouble(class string) error {
	if p.number == 0 {
		return nil
	}
	state, err := inventory.PortState(class, p.device, p.number)
	switch {
	case noFiles(err) || state == "ACTIVE":
		return nil
	case err != nil:
		return fmt.Errorf("device %s is gone", p.device)
	}
	return fmt.Errorf("port %d of %s is %s", p.number, p.device, state)
}

// anyPort fails unless a port is active. device limits this to one device; "" means any
// device. Ports of deaf devices don't count.
func anyPort(class, device string, deaf func(device string) bool) error {
	if _, err := os.ReadDir(class); noFiles(err) {
		return nil
	}
	ports, _ := filepath.Glob(filepath.Join(class, "*", "ports", "*")) // the pattern is valid
	for _, dir := range ports {
		n, err := strconv.Atoi(filepath.Base(dir))
		name := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		if err == nil && (device == "" || name == device) && !deaf(name) && (port{name, n}).trouble(class) == nil {
			return nil
		}
	}
	return errNoPort
}

// noFiles reports whether a file could not be opened because too many files are open.
func noFiles(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }
