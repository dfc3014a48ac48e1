package providers

import (
	"maps"
	"slices"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// elsewhere are the providers that a build may lack, and how to get them.
var elsewhere = map[string]string{
	"rdmacore": "for RDMA adapters: package rdmad-rdmacore, or make build-rdmacore",
}

// Absent returns the providers that this build lacks, and how to get them.
func Absent() map[string]string {
	absent := make(map[string]string)
	for name, how := range elsewhere {
		if _, ok := makers[name]; !ok {
			absent[name] = how
		}
	}
	return absent
}

// describe adds what this build knows about a device. It is nil when the build can use none.
var describe func(*inventory.Device)

// Inventory returns all providers, those of this build first.
func Inventory() (all []inventory.Provider) {
	for _, name := range Names() {
		all = append(all, inventory.Provider{Name: name, BuiltIn: true})
	}
	absent := Absent()
	for _, name := range slices.Sorted(maps.Keys(absent)) {
		all = append(all, inventory.Provider{Name: name, Note: absent[name]})
	}
	return all
}

// Devices returns the RDMA devices of the machine, with what the provider of this build
// reports about them. Provider softiwarp needs no device.
func Devices() []inventory.Device {
	all := inventory.Devices()
	if describe != nil {
		for i := range all {
			describe(&all[i])
		}
	}
	return all
}
