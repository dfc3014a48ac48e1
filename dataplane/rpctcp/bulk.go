package rpctcp

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/bulk"
)

// maxVector is the largest number of pieces of one system call for much data. With more,
// unix.Writev allocates on the heap.
const maxVector = 8

// bulkWriter writes to a connection. While it moves much data it has a place (package
// bulk), but never while it waits for the peer. The zero value is ready to use.
type bulkWriter struct {
	left net.Buffers // not written yet

	// For much data. raw is nil before the first, and if the connection has no descriptor.
	raw     syscall.RawConn
	attempt func(fd uintptr) bool
	n       int   // bytes that the last attempt wrote
	errno   error // of that attempt
}

// write writes what is left to nc, always the same connection, until its deadline. It
// returns how much it wrote.
func (w *bulkWriter) write(nc net.Conn) (n int64, err error) {
	if length(w.left) <= bulk.Large {
		bulk.Small()
	}
	for length(w.left) > bulk.Large && w.open(nc) {
		w.n, w.errno = 0, nil
		err = w.raw.Write(w.attempt)
		if w.errno != nil {
			err = &net.OpError{Op: "write", Net: "tcp", Source: nc.LocalAddr(), Addr: nc.RemoteAddr(), Err: os.NewSyscallError("writev", w.errno)}
		}
		n += int64(w.n)
		w.consume()
		if err != nil {
			return n, err
		}
	}
	m, err := w.left.WriteTo(nc)
	return n + m, err
}

// open prepares for much data. It returns false if nc has no descriptor.
func (w *bulkWriter) open(nc net.Conn) bool {
	if w.raw != nil {
		return true
	}
	w.raw, w.attempt = rawConn(nc), w.try
	return w.raw != nil
}

// rawConn returns the descriptor of nc, or nil if it has none.
func rawConn(nc net.Conn) syscall.RawConn {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// try makes one system call. It returns false when the socket is full.
func (w *bulkWriter) try(fd uintptr) bool {
	placed := bulk.Enter(length(w.left))
	n, err := unix.Writev(int(fd), w.left[:min(len(w.left), maxVector)])
	bulk.Leave(placed)
	switch {
	case err == nil:
		w.n = n
	case errors.Is(err, unix.EAGAIN):
		return false
	case !errors.Is(err, unix.EINTR):
		w.errno = err
	}
	return true
}

// consume drops the bytes that the last attempt wrote.
func (w *bulkWriter) consume() {
	for n := w.n; n > 0; {
		k := min(n, len(w.left[0]))
		if w.left[0] = w.left[0][k:]; len(w.left[0]) == 0 {
			w.left = w.left[1:]
		}
		n -= k
	}
}

// length returns the number of bytes of pieces.
func length(pieces net.Buffers) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}
