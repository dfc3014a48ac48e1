package nfs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/nfs/fh"
)

// shards is the number of shards of a cache, so that processors rarely wait for each other.
const shards = 16

// cache keeps the most recently used objects open between calls, so that READ and WRITE
// need not open anything. The number of descriptors is limited. When it is full, the least
// recently used object that is not in use is closed. If all objects are in use, room
// returns an error before a call opens more. Calls that are opening something may briefly
// exceed the limit.
type cache struct {
	limit  atomic.Int64
	files  atomic.Int64 // open descriptors of objects
	shards [shards]shard
}

// shard is a part of the cache. Its list is in order of use, the least recently used first.
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

// get returns the object of a handle that a peer sent, with a reference, or nil. The handle
// is proved genuine if it equals the object's.
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

// put adds an object, whose only reference then belongs to the cache, and returns it with
// another one. If there is an object with that ID already, put closes o and returns that
// object.
func (c *cache) put(o *object, epoch uint32) *object {
	at := int(o.id.Hash() % shards)
	sh := &c.shards[at]
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
	c.shrink(at, c.limit.Load())
	return old
}

// room makes room for one more descriptor. The error is errJukebox, so that the client
// tries again later.
func (c *cache) room() error {
	limit := c.limit.Load()
	if c.files.Load() < limit {
		return nil
	}
	if c.shrink(0, limit-1); c.files.Load() >= limit {
		return errJukebox
	}
	return nil
}

// shrink closes unused objects until at most most descriptors are open. It begins with the
// shard that has just grown.
func (c *cache) shrink(first int, most int64) {
	tooMany := func(*object) bool { return c.files.Load() > most }
	for i := 0; i < shards && tooMany(nil); i++ {
		c.shards[(first+i)%shards].evict(tooMany)
	}
}

// closeIdle closes objects last used before epoch before.
func (c *cache) closeIdle(before uint32) {
	for i := range c.shards {
		c.shards[i].evict(func(o *object) bool { return int32(o.used-before) < 0 })
	}
}

// evict closes the objects that are not in use, the least recently used first, as long as may
// allows it.
func (sh *shard) evict(may func(*object) bool) {
	for o := sh.unused(may); o != nil; o = sh.unused(may) {
		o.flushAndRelease()
	}
}

// unused removes from the shard the least recently used object that is not in use, if may
// allows it. The caller then has its reference.
func (sh *shard) unused(may func(*object) bool) *object {
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

// forget drops an object that is gone.
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

// forgetGone drops the object with an ID, which has lost a name, if that was its last name.
// Dropping one that has other names is harmless, unless it is in use or holds data that is
// not on stable storage. For these it asks the kernel.
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
		_ = o.stat(&st) // stat drops it if it is gone
	}
	o.release()
}

// clear drops everything.
func (c *cache) clear() {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.Lock()
		all := sh.objects
		sh.objects = make(map[fh.ID]*object)
		sh.lru.prev, sh.lru.next = &sh.lru, &sh.lru
		sh.Unlock()
		for _, o := range all {
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
