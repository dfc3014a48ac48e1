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

// librdmacm opens devices. When it scans them, it closes those that are gone and have no
// references. Each identifier has a reference, and each device in use here has another.

// getDevices returns the contexts of all devices that librdmacm knows. It takes a reference
// to each, which putDevices returns.
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

// listDevices returns the contexts of all devices and makes librdmacm look for new ones.
// Contexts that are not open here may become invalid at any time.
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
