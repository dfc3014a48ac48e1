//go:build rdmacore && cgo

package rdmacore

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// port is a port of a device, as the kernel shows it. Number 0 is none.
type port struct {
	device string
	number int
}

// trouble says why nothing can arrive at the port.
func (p port) trouble(class string) error {
	if p.number == 0 {
		return nil
	}
	switch state := inventory.PortState(class, p.device, p.number); state {
	case "ACTIVE":
		return nil
	case "":
		return fmt.Errorf("device %s is gone", p.device)
	default:
		return fmt.Errorf("port %d of %s is %s", p.number, p.device, state)
	}
}

// anyPort fails unless a port is active, of the device named or, with "", of any,
// but for those that are deaf.
func anyPort(class, device string, deaf func(device string) bool) error {
	ports, _ := filepath.Glob(filepath.Join(class, "*", "ports", "*")) // the pattern is right
	for _, dir := range ports {
		n, err := strconv.Atoi(filepath.Base(dir))
		name := filepath.Base(filepath.Dir(filepath.Dir(dir)))
		if err == nil && (device == "" || name == device) && !deaf(name) && inventory.PortState(class, name, n) == "ACTIVE" {
			return nil
		}
	}
	return errNoPort
}
