package softiwarp

import "github.com/rdmad/rdmad/verbs/driver"

// memRegion is a registered memory region. Posted requests and bound windows use it.
type memRegion struct {
	driver.MR
	region
}

// Close ends peers' access at once, even within a message. It fails with ErrBusy while
// posted requests or bound windows use the region.
func (m *memRegion) Close() error {
	first, err := m.Shut()
	if first {
		m.revoke()
		m.pd.dev.stags.release(m.Key)
		m.Free()
	}
	return err
}
