package providers

import "github.com/rdmad/rdmad/verbs/inventory"

// absent are providers that a build may lack, with how to get them.
var absent = map[string]string{
	"rdmacore": "for RDMA adapters: package rdmad-rdmacore, or make build-rdmacore",
}

// describe adds what this build knows of a device; nil when it can use none.
var describe func(*inventory.Device)

// Inventory are the providers there are, those of this build first.
func Inventory() (all []inventory.Provider) {
	for _, name := range Names() {
		all = append(all, inventory.Provider{Name: name, BuiltIn: true})
	}
	for name, note := range absent {
		if makers[name] == nil {
			all = append(all, inventory.Provider{Name: name, Note: note})
		}
	}
	return all
}

// Devices are the RDMA devices of the machine, with what the provider of this
// build says of them. Provider softiwarp needs none.
func Devices() []inventory.Device {
	all := inventory.Devices()
	if describe != nil {
		for i := range all {
			describe(&all[i])
		}
	}
	return all
}
