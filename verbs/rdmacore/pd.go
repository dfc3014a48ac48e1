//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import "github.com/rdmad/rdmad/verbs/driver"

// protectionDomain is a protection domain.
type protectionDomain struct {
	driver.PD
	dev *device
	c   *C.struct_ibv_pd
}

// Close implements verbs.PD.
func (pd *protectionDomain) Close() error {
	return pd.CloseWith(func() error {
		if rc := command(func() C.int { return C.ibv_dealloc_pd(pd.c) }); !pd.dev.destroyed(rc) {
			return failed("deallocate PD", rc)
		}
		return nil
	})
}
