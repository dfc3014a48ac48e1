package offheap

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// ErrLimit means that the process has reached its limit of this memory.
var ErrLimit = errors.New("offheap: limit of memory reached")

// Region is memory with one owner.
type Region struct {
	mem   []byte
	part  *Part // from which it was taken, or nil
	freed atomic.Bool
}

// Bytes returns the whole region. It begins at a page boundary and is initially zero.
func (r *Region) Bytes() []byte { return r.mem }

// account is the ledger of the process.
var account = ledger{limit: math.MaxInt64, changed: func(int64) {}, owners: make(map[*func()]struct{})}

// ledger counts the regions that exist.
type ledger struct {
	mu      sync.Mutex
	limit   int64
	used    int64
	kept    int64 // for parts
	lent    int64 // the part of used that is from parts
	regions int
	peak    int64
	changed func(used int64)     // see Observe
	waiting []*func()            // see Notify
	wanting atomic.Int32         // len(waiting)
	owners  map[*func()]struct{} // see OnShortage
}

// Stats are the process's statistics of this memory.
type Stats struct {
	Used    int64 // bytes of all regions that are not freed
	Peak    int64 // the most so far
	Limit   int64 // math.MaxInt64 without one
	Kept    int64 // for parts
	Regions int
}

// Read returns the current statistics.
func Read() Stats {
	account.mu.Lock()
	defer account.mu.Unlock()
	return Stats{Used: account.used, Peak: account.peak, Limit: account.limit, Kept: account.kept, Regions: account.regions}
}

// SetLimit limits the bytes of all regions. Existing regions stay, even beyond the limit.
func SetLimit(n int64) {
	account.mu.Lock()
	account.limit = n
	account.mu.Unlock()
	account.wake()
}

// Observe calls f with the bytes of all regions, now and after each change, in order. f
// must not use the package. There is at most one observer.
func Observe(f func(used int64)) {
	account.mu.Lock()
	defer account.mu.Unlock()
	account.changed = f
	f(account.used)
}

// Notify calls f once, when memory has been freed or the limit has changed, unless forget is called
// before. forget returns false if it was too late. Notify is for callers of Alloc that got ErrLimit.
func Notify(f func()) (forget func() bool) {
	account.mu.Lock()
	defer account.mu.Unlock()
	account.waiting = append(account.waiting, &f)
	if account.wanting.Add(1) == 1 { // otherwise the owners were called before
		for free := range account.owners {
			go (*free)()
		}
	}
	return func() bool {
		account.mu.Lock()
		defer account.mu.Unlock()
		i := slices.Index(account.waiting, &f)
		if i >= 0 {
			account.waiting = slices.Delete(account.waiting, i, i+1)
			account.wanting.Add(-1)
		}
		return i >= 0
	}
}

// OnShortage calls free, in a goroutine of its own, whenever the first caller begins to wait for memory, until stop
// is called. Owners of unused regions free them then.
func OnShortage(free func()) (stop func()) {
	account.mu.Lock()
	defer account.mu.Unlock()
	account.owners[&free] = struct{}{}
	return func() {
		account.mu.Lock()
		defer account.mu.Unlock()
		delete(account.owners, &free)
	}
}

// Waiting returns how many functions of Notify have not been called or forgotten yet. Owners of unused regions
// should free them while it is not 0.
func Waiting() int { return int(account.wanting.Load()) }

// Alloc returns n bytes, rounded up to whole pages. Beyond the limit, less what is kept for parts, the
// error is ErrLimit.
func Alloc(n int) (*Region, error) { return alloc(n, nil, account.take) }

// Force is Alloc without the limit. It is for small amounts that cannot wait and are
// limited elsewhere.
func Force(n int) (*Region, error) { return alloc(n, nil, account.force) }

// alloc maps memory that take has counted.
func alloc(n int, part *Part, take func(int64) bool) (*Region, error) {
	if n <= 0 {
		return nil, fmt.Errorf("offheap: %d bytes asked for", n)
	}
	n = wholePages(n)
	if !take(int64(n)) {
		return nil, ErrLimit
	}
	mem, err := mapped(n)
	if err != nil {
		account.give(int64(n), part)
		return nil, fmt.Errorf("offheap: map %d bytes: %w", n, err)
	}
	return &Region{mem: mem, part: part}, nil
}

// Free frees the region's memory. It must be called only once.
func (r *Region) Free() {
	if !r.freed.CompareAndSwap(false, true) {
		panic("offheap: region freed twice")
	}
	mem := r.mem
	r.mem = nil
	unmap(mem)
	account.give(int64(len(mem)), r.part)
}

func wholePages(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// take counts n bytes more, unless the limit forbids it.
func (l *ledger) take(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := l.used
	if l.keeps() {
		used += l.kept - l.lent
	}
	if n > l.limit-used {
		return false
	}
	l.count(n)
	return true
}

// force counts n bytes more.
func (l *ledger) force(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count(n)
	return true
}

// count counts n bytes more. l.mu is held.
func (l *ledger) count(n int64) {
	l.used += n
	l.regions++
	l.peak = max(l.peak, l.used)
	l.changed(l.used)
}

// give counts n bytes less.
func (l *ledger) give(n int64, part *Part) {
	l.mu.Lock()
	if part != nil && !part.closed {
		part.used -= n
		l.lent -= n
	}
	l.used -= n
	l.regions--
	l.changed(l.used)
	l.mu.Unlock()
	l.wake()
}

// wake calls the functions that wait for memory.
func (l *ledger) wake() {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.wanting.Store(0)
	l.mu.Unlock()
	for _, f := range waiting {
		(*f)()
	}
}
