package statefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// Layout of a bbolt file: pages that begin with a header, the first two of
// them meta pages of which the valid one with the higher transaction counts.
// Integers are in the machine's order, which is little-endian on all that
// rdmad is built for.
const (
	pageHeader = 16 // id u64, flags u16, count u16, overflow u32
	metaSize   = 64 // magic, version, page size, flags u32; root, sequence, freelist, pages, transaction, checksum u64
	elemSize   = 16
	bucketSize = 16 // root page, sequence u64

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10
	leafBucket   = 0x01 // of a leaf element: the value is a bucket

	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	noFreelist   = 1<<64 - 1
	smallestPage = 1 << 10
	largestPage  = 1 << 16
	maxDepth     = 16
)

// errDamaged is wrapped by what is wrong with a file.
var errDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w (%s)", errDamaged, fmt.Sprintf(format, args...))
}

// buckets are the top-level buckets by name, with their keys and values.
type buckets map[string]map[string][]byte

// meta is one state of the file.
type meta struct {
	pageSize                    uint64
	root, freelist, pages, txid uint64
}

// image is a whole file in memory. It is looked at without bbolt, which maps
// the file and trusts every page: a damaged one would end the process.
type image struct {
	data []byte
	meta meta
	used map[uint64]bool // pages that something refers to
}

// readImage checks all that bbolt would follow, and gives what the buckets
// hold; the values point into data.
func readImage(data []byte) (buckets, error) {
	m, err := bestMeta(data)
	if err != nil {
		return nil, err
	}
	im := &image{data: data, meta: m, used: map[uint64]bool{0: true, 1: true}}
	if m.pages < 2 || m.pages > uint64(len(data))/m.pageSize {
		return nil, damaged("%d pages in %d bytes", m.pages, len(data))
	}
	out := buckets{}
	err = im.pageTree(m.root, 0, func(flags uint32, key, value []byte) error {
		if flags&leafBucket == 0 {
			return damaged("a value outside of buckets")
		}
		values := map[string][]byte{}
		out[string(key)] = values
		return im.bucket(value, values)
	})
	if err == nil {
		err = im.freelist()
	}
	return out, err
}

// bestMeta finds the last state that was written whole.
func bestMeta(data []byte) (meta, error) {
	best, found := meta{}, false
	try := func(at int) {
		m, ok := parseMeta(data, at)
		if ok && (at == 0 || m.pageSize == uint64(at)) && (!found || m.txid > best.txid) {
			best, found = m, true
		}
	}
	try(0)
	for at := smallestPage; at <= largestPage; at *= 2 {
		try(at)
	}
	if !found {
		return meta{}, damaged("no valid meta page")
	}
	return best, nil
}

func parseMeta(data []byte, at int) (m meta, ok bool) {
	if len(data) < at+pageHeader+metaSize {
		return m, false
	}
	b := data[at+pageHeader : at+pageHeader+metaSize]
	le := binary.LittleEndian
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	m = meta{
		pageSize: uint64(le.Uint32(b[8:])), root: le.Uint64(b[16:]),
		freelist: le.Uint64(b[32:]), pages: le.Uint64(b[40:]), txid: le.Uint64(b[48:]),
	}
	size := m.pageSize
	return m, le.Uint32(b) == boltMagic && le.Uint32(b[4:]) == boltVersion && le.Uint64(b[56:]) == sum.Sum64() &&
		size >= smallestPage && size <= largestPage && size&(size-1) == 0
}

// page is the bytes of a page with its overflow. No page is used twice.
func (im *image) page(id uint64) ([]byte, error) {
	if id < 2 || id >= im.meta.pages {
		return nil, damaged("page %d of %d", id, im.meta.pages)
	}
	head := im.data[id*im.meta.pageSize:]
	if got := binary.LittleEndian.Uint64(head); got != id {
		return nil, damaged("page %d says it is %d", id, got)
	}
	n := 1 + uint64(binary.LittleEndian.Uint32(head[12:]))
	if n > im.meta.pages-id {
		return nil, damaged("page %d is too long", id)
	}
	for i := id; i < id+n; i++ {
		if im.used[i] {
			return nil, damaged("page %d is used twice", i)
		}
		im.used[i] = true
	}
	return head[:n*im.meta.pageSize], nil
}

// visit is told of each element of a leaf.
type visit func(flags uint32, key, value []byte) error

// bucket reads a bucket that is the value of an element.
func (im *image) bucket(value []byte, into map[string][]byte) error {
	if len(value) < bucketSize {
		return damaged("a short bucket")
	}
	put := func(flags uint32, key, value []byte) error {
		if flags != 0 {
			return damaged("a bucket in a bucket")
		}
		into[string(key)] = value
		return nil
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return im.pageTree(root, 0, put)
	}
	return im.tree(value[bucketSize:], 0, put)
}

func (im *image) pageTree(id uint64, depth int, f visit) error {
	p, err := im.page(id)
	if err != nil {
		return err
	}
	return im.tree(p, depth, f)
}

// tree walks the tree below the page p.
func (im *image) tree(p []byte, depth int, f visit) error {
	if len(p) < pageHeader || depth > maxDepth {
		return damaged("a tree without an end")
	}
	le := binary.LittleEndian
	flags, count := le.Uint16(p[8:]), int(le.Uint16(p[10:]))
	if len(p) < pageHeader+count*elemSize || flags != flagBranch && flags != flagLeaf {
		return damaged("a page that is neither branch nor leaf")
	}
	last := ""
	for i := range count {
		at := pageHeader + i*elemSize
		e := p[at : at+elemSize]
		// Positions count from the element: of a branch {pos, ksize u32, page
		// u64}, of a leaf {flags, pos, ksize, vsize u32}.
		pos, ksize, vsize := uint64(le.Uint32(e)), uint64(le.Uint32(e[4:])), uint64(0)
		if flags == flagLeaf {
			pos, ksize, vsize = uint64(le.Uint32(e[4:])), uint64(le.Uint32(e[8:])), uint64(le.Uint32(e[12:]))
		}
		from := uint64(at) + pos
		if from+ksize+vsize > uint64(len(p)) {
			return damaged("an element beyond its page")
		}
		key, value := p[from:from+ksize], p[from+ksize:from+ksize+vsize]
		if i > 0 && string(key) <= last {
			return damaged("keys out of order")
		}
		last = string(key)
		var err error
		if flags == flagLeaf {
			err = f(le.Uint32(e), key, value)
		} else {
			err = im.pageTree(le.Uint64(e[8:]), depth+1, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// freelist makes sure that nothing in use would be overwritten. Used pages
// are known by now.
func (im *image) freelist() error {
	if im.meta.freelist == noFreelist {
		return nil
	}
	p, err := im.page(im.meta.freelist)
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	flags, count, ids := le.Uint16(p[8:]), uint64(le.Uint16(p[10:])), p[pageHeader:]
	if count == 0xffff { // the first one counts them
		count, ids = le.Uint64(ids), ids[8:]
	}
	if flags != flagFreelist || count > uint64(len(ids))/8 {
		return damaged("no list of free pages")
	}
	for i := range count {
		id := le.Uint64(ids[8*i:])
		if id >= im.meta.pages || im.used[id] {
			return damaged("page %d is free and in use", id)
		}
		im.used[id] = true
	}
	return nil
}
