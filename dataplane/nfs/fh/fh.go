// Package fh makes the NFS file handles of an export and takes them apart
// again.
//
// A handle names an object by what its file system knows it by for good (ID),
// not by a path, and carries a keyed checksum: a peer can use handles that it
// was given, but can't make one.
//
//	0  version (1)
//	1  kind of ID
//	2  type of the kernel's handle, u16 big-endian
//	4  export: a digest of key and export root, u32
//	8  ID, 4 to 40 bytes
//	-  checksum: the first 16 bytes of HMAC-SHA256 over all before
//
// A handle of another export, or of another key, is stale: ErrForeign. A
// handle that names this export and has a wrong checksum is forged: ErrBad.
package fh

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"sync"
)

// Sizes in bytes.
const (
	MaxSize = 64 // of a handle (NFS3_FHSIZE, RFC 1813 §2.4)
	MaxID   = MaxSize - headerSize - macSize
	KeySize = 32

	headerSize = 8
	macSize    = 16
	minID      = 4
	version    = 1
)

// Errors of Open.
var (
	ErrBad     = errors.New("fh: malformed or forged file handle")
	ErrForeign = errors.New("fh: file handle of another export or key")
)

// Handle is a file handle. It is comparable.
type Handle struct {
	b [MaxSize]byte // 0 from n on
	n uint8
}

// FromBytes copies a handle that a peer sent. ok is false when it can't be
// one by its size; nothing else is checked.
func FromBytes(b []byte) (h Handle, ok bool) {
	if len(b) < headerSize+minID+macSize || len(b) > MaxSize {
		return h, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// Bytes is what goes over the wire. It aliases h.
func (h *Handle) Bytes() []byte { return h.b[:h.n] }

// Sum is 64 bits of the checksum: as good as a random number that belongs to
// the object, for handles that were sealed or opened here.
func (h *Handle) Sum() uint64 {
	return binary.BigEndian.Uint64(h.b[h.n-8 : h.n])
}

// Equal compares handles, in a time that says nothing about how they differ.
func (h *Handle) Equal(other *Handle) bool {
	differ := uint64(h.n ^ other.n)
	for at := 0; at < MaxSize; at += 8 {
		differ |= binary.NativeEndian.Uint64(h.b[at:]) ^ binary.NativeEndian.Uint64(other.b[at:])
	}
	return differ == 0
}

// Claim is the ID that a handle claims to have. Only Open proves it.
func (h *Handle) Claim() (ID, bool) {
	if h.n < headerSize+minID+macSize {
		return ID{}, false
	}
	return NewID(Kind(h.b[1]), int32(binary.BigEndian.Uint16(h.b[2:])), h.b[headerSize:h.n-macSize])
}

// Kind says how an ID names its object.
type Kind uint8

// Kinds of ID.
const (
	Kernel Kind = 1 // a handle of name_to_handle_at(2)
	Inode  Kind = 2 // inode number and time of birth, for file systems without handles
	Name   Kind = 3 // a handle that can't be opened (AT_HANDLE_FID)
)

// ID is how a file system knows an object. It is comparable.
type ID struct {
	Kind Kind
	Type uint16 // Kernel: the handle's type
	n    uint8
	b    [MaxID]byte
}

// NewID makes an ID. ok is false when b is too short or too long for a handle.
func NewID(kind Kind, typ int32, b []byte) (id ID, ok bool) {
	if len(b) < minID || len(b) > MaxID || typ < 0 || typ > 0xffff {
		return id, false
	}
	id = ID{Kind: kind, Type: uint16(typ)}
	id.n = uint8(copy(id.b[:], b))
	return id, true
}

// Bytes is the file system's part of the ID. It aliases id.
func (id *ID) Bytes() []byte { return id.b[:id.n] }

// Hash is a number to spread IDs by, with no secret in it.
func (id *ID) Hash() uint64 {
	const odd = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio
	sum := uint64(id.Type)
	for at := 0; at < int(id.n); at += 8 {
		sum = (sum ^ binary.LittleEndian.Uint64(id.b[at:])) * odd
		sum ^= sum >> 32
	}
	return sum
}

// Codec seals and opens the handles of one export. It is safe for concurrent
// use.
type Codec struct {
	export uint32
	fsid   uint64
	macs   sync.Pool // of *mac
}

// NewCodec derives the codec of the export whose root directory is root from
// a secret.
func NewCodec(key [KeySize]byte, root *ID) *Codec {
	m := hmac.New(sha256.New, key[:])
	m.Write([]byte{byte(root.Kind), byte(root.Type >> 8), byte(root.Type)})
	m.Write(root.Bytes())
	secret := m.Sum(nil)
	c := &Codec{}
	c.macs.New = func() any { return &mac{hash: hmac.New(sha256.New, secret)} }
	sum := c.sum([]byte("export"))
	c.export = binary.BigEndian.Uint32(sum[:])
	c.fsid = binary.BigEndian.Uint64(sum[4:])
	return c
}

// Subkey derives a key for another use. It stays the same as long as handles
// do.
func (c *Codec) Subkey(use string) (k0, k1 uint64) {
	sum := c.sum([]byte(use))
	return binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
}

// FSID is a number for the export's file system (fattr3.fsid) that stays the
// same as long as the key does.
func (c *Codec) FSID() uint64 { return c.fsid }

// Seal makes the handle of an object. The same ID always gives the same one.
func (c *Codec) Seal(id *ID) Handle {
	var h Handle
	h.b[0] = version
	h.b[1] = byte(id.Kind)
	binary.BigEndian.PutUint16(h.b[2:], id.Type)
	binary.BigEndian.PutUint32(h.b[4:], c.export)
	n := headerSize + copy(h.b[headerSize:], id.Bytes())
	sum := c.sum(h.b[:n])
	h.n = uint8(n + copy(h.b[n:n+macSize], sum[:]))
	return h
}

// Open checks a handle and says what it names.
func (c *Codec) Open(h *Handle) (ID, error) {
	if h.n < headerSize+minID+macSize || h.b[0] != version {
		return ID{}, ErrBad
	}
	if binary.BigEndian.Uint32(h.b[4:]) != c.export {
		return ID{}, ErrForeign
	}
	n := int(h.n) - macSize
	sum := c.sum(h.b[:n])
	if !hmac.Equal(sum[:macSize], h.b[n:h.n]) {
		return ID{}, ErrBad
	}
	id, ok := h.Claim()
	if !ok {
		return ID{}, ErrBad
	}
	return id, nil
}

// mac computes checksums. Input and output are its own, so that nothing else
// escapes to the heap.
type mac struct {
	hash hash.Hash
	in   [MaxSize]byte
	out  [sha256.Size]byte
}

// sum is the checksum of b, which is not longer than a handle.
func (c *Codec) sum(b []byte) [sha256.Size]byte {
	m := c.macs.Get().(*mac)
	m.hash.Reset()
	m.hash.Write(m.in[:copy(m.in[:], b)])
	m.hash.Sum(m.out[:0])
	sum := m.out
	c.macs.Put(m)
	return sum
}
