package softiwarp

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

type protectionDomain struct {
	driver.PD
	dev *device
}

// RegMR implements verbs.PD.
func (pd *protectionDomain) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	m := &memRegion{}
	if err := pd.CreateMR(&m.MR, buf, access); err != nil {
		return nil, err
	}
	m.init(pd)
	m.access = access
	m.exposed = access&verbs.AccessLocalWrite != 0 && (access.Binds(verbs.AccessRemoteRead) || access.Binds(verbs.AccessRemoteWrite))
	m.buf, m.base = buf, randomAddress()
	m.Base, m.Key = m.base, pd.dev.stags.reserve(&m.region)
	m.enable(m.Key)
	return m, nil
}

// AllocMW implements verbs.PD.
func (pd *protectionDomain) AllocMW() (verbs.MW, error) {
	w := &memWindow{}
	if err := pd.CreateMW(&w.MW); err != nil {
		return nil, err
	}
	w.init(pd)
	w.win = w
	return w, nil
}

// randomAddress returns the address at which peers see a region: page-aligned, and far
// from both ends of the 64-bit space. It reveals nothing about the process's addresses.
func randomAddress() uint64 {
	const page, span = 1 << 12, 1 << 47
	pages := uint64(randomUint32())<<32 | uint64(randomUint32())
	return span + pages%span&^(page-1)
}

func randomUint32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint32(b[:])
}
