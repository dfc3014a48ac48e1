//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// protectionDomain counts what belongs to it, so that it can't be closed too
// soon.
type protectionDomain struct {
	dev *device
	c   *C.struct_ibv_pd

	mu     sync.Mutex
	users  int
	closed bool
}

// use counts one more object of the domain.
func (pd *protectionDomain) use() error {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.closed {
		return verbs.ErrClosed
	}
	pd.users++
	return nil
}

func (pd *protectionDomain) unuse() {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	pd.users--
}

// Close implements verbs.PD.
func (pd *protectionDomain) Close() error {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.closed {
		return nil
	}
	if pd.users > 0 {
		return fmt.Errorf("rdmacore: protection domain with %d objects: %w", pd.users, verbs.ErrBusy)
	}
	if rc := command(func() C.int { return C.ibv_dealloc_pd(pd.c) }); !pd.dev.destroyed(rc) {
		return failed("deallocate PD", rc)
	}
	pd.closed = true
	pd.dev.live.pds.Add(-1)
	return nil
}
