package providers

import (
	"os"
	"path/filepath"
	"strings"
)

// DeviceInfo is an RDMA device as the kernel shows it, whether or not this build
// has a provider for it.
type DeviceInfo struct {
	Name  string
	State string // of its first port: ACTIVE, DOWN, …
	Rate  string // "100 Gb/sec (4X EDR)"
	Link  string // Ethernet, InfiniBand
}

// Devices are those of the machine. Provider softiwarp needs none.
func Devices() []DeviceInfo { return devicesIn("/sys/class/infiniband") }

func devicesIn(dir string) (all []DeviceInfo) {
	entries, _ := os.ReadDir(dir) // none without the kernel's RDMA
	for _, e := range entries {
		port := filepath.Join(dir, e.Name(), "ports", "1")
		all = append(all, DeviceInfo{
			Name:  e.Name(),
			State: afterColon(attribute(port, "state")),
			Rate:  attribute(port, "rate"),
			Link:  attribute(port, "link_layer"),
		})
	}
	return all
}

// attribute is a file of one line; "?" when it can't be read.
func attribute(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(text))
}

// afterColon takes the number off "4: ACTIVE".
func afterColon(s string) string {
	if _, word, ok := strings.Cut(s, ": "); ok {
		return word
	}
	return s
}
