package disk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// sector is the number of bytes that a disk writes completely or not at all.
const sector = 512

// maxLog bounds the bytes of all writes that a disk keeps.
const maxLog = 1 << 30

var (
	errRange  = errors.New("disk: outside of the disk")
	errFull   = errors.New("disk: more was written than is remembered")
	errBroken = errors.New("disk: broken")
)

// Disk is a disk in memory. Its methods are safe for concurrent use.
type Disk struct {
	mu     sync.Mutex
	now    []byte // the contents that reads return, cache included
	log    []entry
	logged int // bytes of data in log
	broken func(data []byte) bool
}

// entry is a write or, with no data, a flush.
type entry struct {
	offset int64
	data   []byte
	fua    bool // on the medium before the reply (FUA)
}

// New makes a disk of size bytes, all zero.
func New(size int) *Disk { return &Disk{now: make([]byte, size)} }

// Position returns the number of writes and flushes so far. It includes all
// requests that were answered.
func (d *Disk) Position() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.log)
}

func (d *Disk) in(offset, n int64) bool {
	return offset >= 0 && n >= 0 && offset <= int64(len(d.now)) && n <= int64(len(d.now))-offset
}

func (d *Disk) read(p []byte, offset int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.in(offset, int64(len(p))) {
		return errRange
	}
	copy(p, d.now[offset:])
	return nil
}

// Break makes the disk fail (EIO) the writes of data for which broken returns true. These change
// nothing. With nil the disk is whole again.
func (d *Disk) Break(broken func(data []byte) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

// write stores data. The disk keeps the slice.
func (d *Disk) write(data []byte, offset int64, fua bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.in(offset, int64(len(data))):
		return errRange
	case d.logged+len(data) > maxLog:
		return errFull
	case d.broken != nil && d.broken(data):
		return errBroken
	case len(data) == 0: // an empty write must not look like a flush
		return nil
	}
	copy(d.now[offset:], data)
	d.log = append(d.log, entry{offset, data, fua})
	d.logged += len(data)
	return nil
}

func (d *Disk) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, entry{})
}

// Loss says what a power failure does to the writes in the cache.
type Loss int

const (
	// LoseAll loses all of them.
	LoseAll Loss = iota
	// LoseSome keeps some complete writes, in any order.
	LoseSome
	// LoseSectors keeps some sectors of them.
	LoseSectors
)

func (l Loss) String() string { return [...]string{"all", "some writes", "some sectors"}[l] }

// After returns the contents of the medium after a power failure at position.
// seed chooses the lost writes.
func (d *Disk) After(position int, loss Loss, seed uint64) ([]byte, error) {
	d.mu.Lock()
	log, size := d.log, len(d.now)
	d.mu.Unlock()
	if position < 0 || position > len(log) {
		return nil, fmt.Errorf("disk: position %d of %d", position, len(log))
	}
	flushed := position
	for flushed > 0 && log[flushed-1].data != nil {
		flushed--
	}
	medium := make([]byte, size)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for i, e := range log[:position] {
		switch {
		case i < flushed || e.fua || loss == LoseSome && rnd.IntN(2) == 0:
			copy(medium[e.offset:], e.data)
		case loss == LoseSectors:
			for at := 0; at < len(e.data); at += sector {
				if rnd.IntN(2) == 0 {
					copy(medium[e.offset+int64(at):], e.data[at:min(at+sector, len(e.data))])
				}
			}
		}
	}
	return medium, nil
}
