package softiwarp

import "sync"

// bufferSize is the size of the buffers for reading from and writing to
// sockets, in bytes: large enough to make system calls cheap, small enough
// to stay in a core's cache.
const bufferSize = 256 << 10

type buffer [bufferSize]byte

var bufferPool = sync.Pool{New: func() any { return new(buffer) }}

func getBuffer() *buffer { return bufferPool.Get().(*buffer) }

func putBuffer(b *buffer) { bufferPool.Put(b) }
