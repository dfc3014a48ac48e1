package nfs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
)

// shards of a cache: enough for as many processors to seldom meet.
const shards = 16

// cache keeps objects open between calls, the most recently used ones, so
// that READ and WRITE need not open anything. It is bounded by the number of
// descriptors; when full, the least recently used object that nobody uses now
// gives way. Objects in use are never closed: where they have all descriptors, room
// says so before a call opens more. The bound is passed by what calls that are
// opening something at the moment need.
type cache struct {
	limit  atomic.Int64
	files  atomic.Int64 // open descriptors of objects
	shards [shards]shard
}

// shard is a part of the cache. Its list begins with the least recently used.
type shard struct {
	sync.Mutex
	objects map[fh.ID]*object
	lru     object // head of the ring
	_       [64]byte
}

func newCache(limit int) *cache {
	c := new(cache)
	c.limit.Store(int64(limit))
	for i := range c.shards {
		sh := &c.shards[i]
		sh.objects = make(map[fh.ID]*object)
		sh.lru.prev, sh.lru.next = &sh.lru, &sh.lru
	}
	return c
}

func (c *cache) shard(id *fh.ID) *shard { return &c.shards[id.Hash()%shards] }

// get returns the object of a handle, which a peer sent, with a reference, or
// nil: that it is the object's to the last byte proves it.
func (c *cache) get(h *fh.Handle, epoch uint32) *object {
	id, ok := h.Claim()
	if !ok {
		return nil
	}
	o := c.find(&id, epoch)
	if o != nil && !o.handle.Equal(h) {
		o.release()
		return nil
	}
	return o
}

// find returns the object with an ID with a reference, or nil.
func (c *cache) find(id *fh.ID, epoch uint32) *object {
	sh := c.shard(id)
	sh.Lock()
	defer sh.Unlock()
	o := sh.objects[*id]
	if o == nil {
		return nil
	}
	o.refs.Add(1)
	o.used = epoch
	o.unlink()
	sh.append(o)
	return o
}

// put adds an object, whose only reference becomes the cache's, and returns
// it with another one. When there is one with that ID already it is
// returned in its place, and o is closed.
func (c *cache) put(o *object, epoch uint32) *object {
	sh := c.shard(&o.id)
	sh.Lock()
	old := sh.objects[o.id]
	if old == nil {
		sh.objects[o.id] = o
		old = o
	} else {
		old.unlink()
	}
	old.refs.Add(1)
	old.used = epoch
	sh.append(old)
	sh.Unlock()
	if old != o {
		o.release()
	}
	c.shrink(sh, c.limit.Load())
	return old
}

// room makes room for one more descriptor. The error is errJukebox, with which
// the client comes back later.
func (c *cache) room() error {
	limit := c.limit.Load()
	if c.files.Load() < limit {
		return nil
	}
	if c.shrink(&c.shards[0], limit-1); c.files.Load() >= limit {
		return errJukebox
	}
	return nil
}

// shrink closes unused objects until so many descriptors are open, looking
// at the shard first that has just grown.
func (c *cache) shrink(first *shard, most int64) {
	if c.files.Load() <= most {
		return
	}
	start := 0
	for i := range c.shards {
		if &c.shards[i] == first {
			start = i
		}
	}
	for i := range c.shards {
		sh := &c.shards[(start+i)%shards]
		for c.files.Load() > most {
			o := sh.evict(func(*object) bool { return true })
			if o == nil {
				break
			}
			o.flushAndRelease()
		}
	}
}

// closeIdle closes what was last used before epoch.
func (c *cache) closeIdle(before uint32) {
	for i := range c.shards {
		sh := &c.shards[i]
		for {
			o := sh.evict(func(o *object) bool { return int32(o.used-before) < 0 })
			if o == nil {
				break
			}
			o.flushAndRelease()
		}
	}
}

// evict takes the least recently used object that nobody uses and that may
// go out of the shard. Its reference is the caller's now.
func (sh *shard) evict(may func(*object) bool) *object {
	sh.Lock()
	defer sh.Unlock()
	for o := sh.lru.next; o != &sh.lru; o = o.next {
		if o.refs.Load() != 1 {
			continue
		}
		if !may(o) {
			return nil
		}
		sh.remove(o)
		return o
	}
	return nil
}

// forget drops an object that is no more.
func (c *cache) forget(o *object) {
	sh := c.shard(&o.id)
	sh.Lock()
	mine := sh.objects[o.id] == o
	if mine {
		sh.remove(o)
	}
	sh.Unlock()
	if mine {
		o.release()
	}
}

// forgetGone drops the object with an ID, which has lost a name, when that was
// the last. To drop one that has others does no harm either, unless it is in
// use or holds data that is not on stable storage: of these the kernel is
// asked.
func (c *cache) forgetGone(id *fh.ID) {
	sh := c.shard(id)
	sh.Lock()
	o := sh.objects[*id]
	ask := false
	if o != nil {
		if ask = o.refs.Load() > 1 || o.dirty.Load(); ask {
			o.refs.Add(1)
		} else {
			sh.remove(o)
		}
	}
	sh.Unlock()
	if o == nil {
		return
	}
	if ask {
		var st unix.Stat_t
		_ = o.stat(&st) // forgets it
	}
	o.release()
}

// clear drops everything.
func (c *cache) clear() {
	for i := range c.shards {
		sh := &c.shards[i]
		for {
			sh.Lock()
			o := sh.lru.next
			if o != &sh.lru {
				sh.remove(o)
			}
			sh.Unlock()
			if o == &sh.lru {
				break
			}
			o.flushAndRelease()
		}
	}
}

func (sh *shard) append(o *object) {
	o.prev, o.next = sh.lru.prev, &sh.lru
	o.prev.next, o.next.prev = o, o
}

func (sh *shard) remove(o *object) {
	delete(sh.objects, o.id)
	o.unlink()
}

func (o *object) unlink() {
	o.prev.next, o.next.prev = o.next, o.prev
	o.prev, o.next = nil, nil
}
