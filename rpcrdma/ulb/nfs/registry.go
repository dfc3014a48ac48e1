package nfs

import "github.com/rdmad/rdmad/rpcrdma/ulb"

// Bindings returns all bindings of this package, for ulb.NewRegistry.
func Bindings() []ulb.Binding {
	all := []ulb.Binding{version2(), version3(), version4(), nsm()}
	all = append(all, mount()...)
	return append(all, nlm()...)
}
