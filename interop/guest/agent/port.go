package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// openPort opens the named virtio-serial port. The guest has no udev, so
// openPort finds the name in sysfs.
func openPort(name string) (*os.File, error) {
	const class = "/sys/class/virtio-ports"
	ports, err := os.ReadDir(class)
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		text, err := os.ReadFile(filepath.Join(class, port.Name(), "name"))
		if err == nil && strings.TrimSpace(string(text)) == name {
			return os.OpenFile(filepath.Join("/dev", port.Name()), os.O_RDWR, 0)
		}
	}
	return nil, fmt.Errorf("no virtio-serial port %s among %d", name, len(ports))
}
