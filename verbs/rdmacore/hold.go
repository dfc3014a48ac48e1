//go:build rdmacore && cgo

package rdmacore

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"
)

// librdmacm opens devices, and closes those that are gone when it happens to
// look and nobody has a reference. Identifiers have one, and what is in use
// here has another.

// getDevices gives the contexts of all devices that librdmacm knows, with a
// reference to each, for putDevices.
func getDevices() ([]*C.struct_ibv_context, error) {
	var n C.int
	list, err := C.rdma_get_devices(&n)
	if list == nil {
		return nil, fmt.Errorf("listing devices: %w", err)
	}
	defer C.free(unsafe.Pointer(list))
	return slices.Clone(unsafe.Slice(list, int(n))), nil
}

func putDevices(list []*C.struct_ibv_context) {
	if len(list) > 0 {
		C.rdmad_put_devices(&list[0], C.int(len(list)))
	}
}

// listDevices gives the contexts of all devices, and has librdmacm look for new
// ones. Those of no open context may be gone by the time that they are looked at.
func listDevices() ([]*C.struct_ibv_context, error) {
	list, err := getDevices()
	if err != nil {
		return nil, err
	}
	all := slices.Clone(list)
	putDevices(list)
	return all, nil
}

var errVanished = errors.New("rdmacore: the device has just been removed")

// hold takes a reference to one device.
func hold(c *C.struct_ibv_context) error {
	list, err := getDevices()
	if err != nil {
		return err
	}
	i := slices.Index(list, c)
	if i < 0 {
		putDevices(list)
		return errVanished
	}
	putDevices(slices.Delete(list, i, i+1))
	return nil
}
