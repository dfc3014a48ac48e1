package driver

import "github.com/rdmad/rdmad/verbs"

// SoftDevice is a device of a provider in software: memory that peers name by STags. It
// implements verbs.Device.
type SoftDevice struct {
	Device
	Tags Tags
}

// AllocPD implements verbs.Device.
func (d *SoftDevice) AllocPD() (verbs.PD, error) {
	pd := &SoftPD{tags: &d.Tags}
	if err := d.CreatePD(&pd.PD); err != nil {
		return nil, err
	}
	return pd, nil
}

// Own returns a protection domain of the device as what it is. For any other it returns
// ErrForeignPD.
func (d *SoftDevice) Own(pd verbs.PD) (*SoftPD, error) {
	own, ok := pd.(*SoftPD)
	if !ok || own.dev != &d.Device {
		return nil, ErrForeignPD
	}
	return own, nil
}

// SoftPD is a protection domain of a SoftDevice.
type SoftPD struct {
	PD
	tags *Tags
}

// RegMR implements verbs.PD.
func (pd *SoftPD) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	m := &SoftMR{}
	if err := pd.CreateMR(&m.MR, buf, access); err != nil {
		return nil, err
	}
	m.init(pd)
	m.access = access
	m.Exposed = access&verbs.AccessLocalWrite != 0 && (access.Binds(verbs.AccessRemoteRead) || access.Binds(verbs.AccessRemoteWrite))
	m.buf, m.base = buf, pd.tags.address()
	m.Base, m.Key = m.base, pd.tags.reserve(&m.Region)
	m.enable(m.Key)
	return m, nil
}

// AllocMW implements verbs.PD.
func (pd *SoftPD) AllocMW() (verbs.MW, error) {
	w := &SoftMW{}
	if err := pd.CreateMW(&w.MW); err != nil {
		return nil, err
	}
	w.init(pd)
	w.win = w
	return w, nil
}

// SoftMR is a memory region of a SoftPD. Posted binds, bound windows and, in softiwarp, posted
// requests use it.
type SoftMR struct {
	MR
	Region
}

// Pin prevents Close from returning until Unpin. It returns false if the region is closed.
func (m *SoftMR) Pin() bool { return m.pin(m.Key) }

// Close ends peers' access at once, even within a message. It fails with ErrBusy while
// the region is in use.
func (m *SoftMR) Close() error {
	first, err := m.Shut()
	if first {
		m.revoke()
		m.domain.tags.release(m.Key)
		m.Free()
	}
	return err
}
