package softiwarp

import (
	"fmt"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// mrClosed is added to memRegion.uses by Close.
const mrClosed = -1 << 30

// memRegion is a registered memory region.
type memRegion struct {
	region
	key uint32
	// uses counts posted requests and bound windows that name the region.
	uses atomic.Int32
}

func (m *memRegion) Bytes() []byte { return m.buf }
func (m *memRegion) Addr() uint64  { return m.base }
func (m *memRegion) RKey() uint32  { return m.key }

// use counts one more request or window; false once the region is closed.
func (m *memRegion) use() bool {
	if m.uses.Add(1) > 0 {
		return true
	}
	m.uses.Add(-1)
	return false
}

func (m *memRegion) unuse() { m.uses.Add(-1) }

// Close fails with ErrBusy while posted requests or bound windows name the
// region. Peers lose it at once, whatever they are doing with it.
func (m *memRegion) Close() error {
	if !m.uses.CompareAndSwap(0, mrClosed) {
		if m.uses.Load() < 0 {
			return nil
		}
		return fmt.Errorf("memory region: %w", verbs.ErrBusy)
	}
	m.revoke()
	m.pd.dev.stags.release(m.key)
	m.pd.unuse()
	m.pd.dev.live.mrs.Add(-1)
	return nil
}
