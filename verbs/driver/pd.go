package driver

import (
	"fmt"

	"github.com/rdmad/rdmad/verbs"
)

// PD is a protection domain. It counts the objects in it.
type PD struct {
	dev   *Device
	users Users
}

// use counts one more object of the domain.
func (pd *PD) use(k Kind) error {
	if err := pd.users.Use(); err != nil {
		return err
	}
	pd.dev.live[k].Add(1)
	return nil
}

func (pd *PD) unuse(k Kind) {
	pd.dev.live[k].Add(-1)
	pd.users.Unuse()
}

// Close implements verbs.PD.
func (pd *PD) Close() error { return pd.CloseWith(func() error { return nil }) }

// CloseWith closes the domain. free frees it in the device.
func (pd *PD) CloseWith(free func() error) error {
	first, err := pd.users.Close("protection domain", free)
	if first {
		pd.Free()
	}
	return err
}

// Free uncounts a destroyed domain.
func (pd *PD) Free() { pd.dev.live[PDs].Add(-1) }

// CreateMR makes m a region of the domain. The provider sets Base and Key, or calls Free if
// the device refuses the region.
func (pd *PD) CreateMR(m *MR, buf []byte, access verbs.Access) error {
	if err := pd.use(MRs); err != nil {
		return err
	}
	m.pd, m.Buf, m.Access = pd, buf, access
	if err := checkRegistration(buf, access, pd.dev.Attrs.MaxMRSize); err != nil {
		m.Free()
		return err
	}
	return nil
}

func checkRegistration(buf []byte, access verbs.Access, most uint64) error {
	switch {
	case len(buf) == 0:
		return Invalid("empty memory region")
	case uint64(len(buf)) > most:
		return Invalid(fmt.Sprintf("memory region of %d bytes, %d at most", len(buf), most))
	case access&^verbs.AccessAll != 0:
		return Invalid(fmt.Sprintf("access %#x", access))
	case access&verbs.AccessRemoteWrite != 0 && access&verbs.AccessLocalWrite == 0:
		return Invalid("remote without local write")
	}
	return nil
}

// CreateMW makes w a window of the domain. If the provider then fails to create it, it
// calls Free.
func (pd *PD) CreateMW(w *MW) error {
	if !pd.dev.Attrs.MemWindowType2B {
		return fmt.Errorf("memory windows of type 2B on %s: %w", pd.dev.Attrs.Name, verbs.ErrNotSupported)
	}
	w.pd = pd
	return pd.use(MWs)
}
