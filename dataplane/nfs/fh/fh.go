// Package fh makes and checks the NFS file handles of an export.
//
// A handle names an object by its permanent file system identifier (ID), not by
// a path. It carries a keyed checksum: a peer can use the handles that it
// received, but can't make one.
//
//	0  version (1)
//	1  kind of ID
//	2  type of the kernel's handle, u16 big-endian
//	4  export: a digest of key and export root, u32
//	8  ID, 4 to 40 bytes
//	-  checksum: the first 16 bytes of HMAC-SHA256 over all before
//
// Codec.Open rejects a handle of another export or of another key with
// ErrForeign; for NFS such a handle is stale. It rejects a handle that names
// this export and has a wrong checksum with ErrBad; such a handle is forged.
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

// Errors of Codec.Open.
var (
	ErrBad     = errors.New("fh: malformed or forged file handle")
	ErrForeign = errors.New("fh: file handle of another export or key")
)

// Handle is a file handle. It is comparable.
type Handle struct {
	b [MaxSize]byte // 0 from n on
	n uint8
}

// FromBytes copies a handle that a peer sent. It checks only the size: ok is
// false if no handle has that size.
func FromBytes(b []byte) (h Handle, ok bool) {
	if len(b) < headerSize+minID+macSize || len(b) > MaxSize {
		return h, false
	}
	h.n = uint8(copy(h.b[:], b))
	return h, true
}

// Bytes returns the handle as it is on the wire. It aliases h.
func (h *Handle) Bytes() []byte { return h.b[:h.n] }

// Sum returns 64 bits of the checksum. For a handle from Seal, or one that Open
// accepted, they are as good as a random number that belongs to the object.
func (h *Handle) Sum() uint64 {
	return binary.BigEndian.Uint64(h.b[h.n-8 : h.n])
}

// Export returns the number of the export that a handle claims to belong to.
func (h *Handle) Export() uint32 { return binary.BigEndian.Uint32(h.b[4:]) }

// Equal compares two handles in constant time.
func (h *Handle) Equal(other *Handle) bool {
	differ := uint64(h.n ^ other.n)
	for at := 0; at < MaxSize; at += 8 {
		differ |= binary.NativeEndian.Uint64(h.b[at:]) ^ binary.NativeEndian.Uint64(other.b[at:])
	}
	return differ == 0
}

// Claim returns the ID that a handle claims to have. Only Codec.Open verifies
// it.
func (h *Handle) Claim() (ID, bool) {
	if h.n < headerSize+minID+macSize {
		return ID{}, false
	}
	return NewID(Kind(h.b[1]), int32(binary.BigEndian.Uint16(h.b[2:])), h.b[headerSize:h.n-macSize])
}

// Kind says how an ID names its object.
type Kind uint8

// The kinds of ID.
const (
	Kernel Kind = 1 // a handle of name_to_handle_at(2)
	Inode  Kind = 2 // inode number and time of birth, for file systems without handles
	Name   Kind = 3 // a handle that can't be opened (AT_HANDLE_FID)
)

// ID is a file system's permanent identifier of an object. It is comparable.
type ID struct {
	Kind Kind
	Type uint16 // Kernel: the handle's type
	n    uint8
	b    [MaxID]byte
}

// NewID makes an ID. ok is false if b is too short or too long, or if typ has
// more than 16 bits.
func NewID(kind Kind, typ int32, b []byte) (id ID, ok bool) {
	if len(b) < minID || len(b) > MaxID || typ < 0 || typ > 0xffff {
		return id, false
	}
	id = ID{Kind: kind, Type: uint16(typ)}
	id.n = uint8(copy(id.b[:], b))
	return id, true
}

// Bytes returns the file system's part of the ID. It aliases id.
func (id *ID) Bytes() []byte { return id.b[:id.n] }

// Hash returns a hash of the ID for tables. It contains no secret.
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

// NewCodec makes the codec of an export from the secret key and the ID of the
// export's root directory.
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

// Subkey derives a key for another use. It stays the same as long as the
// handles do.
func (c *Codec) Subkey(use string) (k0, k1 uint64) {
	sum := c.sum([]byte(use))
	return binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
}

// Export returns the number of the export in its handles.
func (c *Codec) Export() uint32 { return c.export }

// FSID returns the number of the export's file system (fattr3.fsid, RFC 1813
// §2.5). It stays the same as long as the handles do.
func (c *Codec) FSID() uint64 { return c.fsid }

// Seal makes the handle of an object. The same ID always gives the same handle.
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

// Open checks a handle and returns the ID that it names. The error is ErrBad or
// ErrForeign.
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

// mac computes checksums. It owns its input and output, so that no buffer of
// the caller escapes to the heap.
type mac struct {
	hash hash.Hash
	in   [MaxSize]byte
	out  [sha256.Size]byte
}

// sum returns the HMAC-SHA256 of b, which is at most MaxSize bytes.
func (c *Codec) sum(b []byte) [sha256.Size]byte {
	m := c.macs.Get().(*mac)
	m.hash.Reset()
	m.hash.Write(m.in[:copy(m.in[:], b)])
	m.hash.Sum(m.out[:0])
	sum := m.out
	c.macs.Put(m)
	return sum
}
