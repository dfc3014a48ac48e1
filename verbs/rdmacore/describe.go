//go:build rdmacore && cgo

package rdmacore

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"unsafe"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// Describe adds to d its limits, or the reason why the provider cannot use it.
func Describe(d *inventory.Device) {
	d.Provider = ProviderName
	name := C.CString(d.Name)
	defer C.free(unsafe.Pointer(name))
	var of C.struct_rdmad_device
	var l C.struct_rdmad_limits
	if rc := C.rdmad_limits(name, &of, &l); rc != 0 {
		d.Problem = missing(failed("open device "+d.Name, rc)).Error()
		return
	}
	d.Limits = &inventory.Limits{
		MemWindowType2B: of.mw2b != 0, SendInvalidate: of.send_inv != 0, ReceiverNotReady: of.iwarp == 0,
		ReadSinkRemoteWrite: wantsSinks(&of),
		MaxQP:               int(l.max_qp), MaxCQ: int(l.max_cq), MaxMR: int(l.max_mr), MaxMW: int(l.max_mw), MaxPD: int(l.max_pd), MaxSRQ: int(l.max_srq),
		MaxQPWR: int(of.max_qp_wr), MaxSGE: int(of.max_sge), MaxCQE: int(of.max_cqe), MaxMRSize: uint64(of.max_mr),
		MaxReadsIn: int(of.max_rd_atom), MaxReadsOut: int(of.max_init_rd_atom),
	}
}
