package softiwarp

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// protectionDomain counts what belongs to it, so that it can't be closed too soon.
type protectionDomain struct {
	dev *device

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

func (pd *protectionDomain) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	switch {
	case len(buf) == 0:
		return nil, fmt.Errorf("empty memory region: %w", verbs.ErrInvalid)
	case access&^verbs.AccessAll != 0:
		return nil, fmt.Errorf("access %#x: %w", access, verbs.ErrInvalid)
	case access&verbs.AccessRemoteWrite != 0 && access&verbs.AccessLocalWrite == 0:
		return nil, fmt.Errorf("remote without local write: %w", verbs.ErrInvalid)
	}
	if err := pd.use(); err != nil {
		return nil, err
	}
	m := &memRegion{}
	m.init(pd)
	m.access, m.exposed = access, access.Binds(verbs.AccessRemoteWrite)
	m.buf, m.base = buf, randomAddress()
	m.key = pd.dev.stags.reserve(&m.region)
	m.enable(m.key)
	pd.dev.live.mrs.Add(1)
	return m, nil
}

func (pd *protectionDomain) AllocMW() (verbs.MW, error) {
	if err := pd.use(); err != nil {
		return nil, err
	}
	w := &memWindow{}
	w.init(pd)
	w.win = w
	pd.dev.live.mws.Add(1)
	return w, nil
}

func (pd *protectionDomain) Close() error {
	pd.mu.Lock()
	defer pd.mu.Unlock()
	if pd.closed {
		return nil
	}
	if pd.users > 0 {
		return fmt.Errorf("protection domain with %d objects: %w", pd.users, verbs.ErrBusy)
	}
	pd.closed = true
	pd.dev.live.pds.Add(-1)
	return nil
}

// randomAddress is where peers see a region start: page-aligned, and far
// from both ends of the 64-bit space. It says nothing about the process's
// own addresses.
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
