package softiwarp

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketWriter writes batches to a socket without waiting, and keeps what
// the socket did not take in a buffer of its own: no memory of the consumer
// is referred to after send.
type socketWriter struct {
	buffers  *buffers
	left     *buffer // nil when nothing is left over
	from, to int
	err      error // the socket is of no use any more

	iov                [][]byte
	taken              int
	attempt, remainder func(fd uintptr) bool
}

func (s *socketWriter) init(buffers *buffers) {
	s.buffers = buffers
	s.attempt = s.tryBatch
	s.remainder = s.tryRest
}

// rest gives the bytes left over.
func (s *socketWriter) rest() []byte {
	if s.left == nil {
		return nil
	}
	return s.left.mem[s.from:s.to]
}

// send writes b, or as much as the socket takes, and resets b.
func (s *socketWriter) send(raw syscall.RawConn, b *batch) {
	s.iov = b.finish()
	if len(s.iov) == 0 {
		return
	}
	s.taken = 0
	if err := raw.Write(s.attempt); err != nil && s.err == nil {
		s.err = err
	}
	s.iov = nil
	if s.err == nil && s.taken < b.total {
		s.left, s.from, s.to = b.keep(s.taken)
	}
	b.reset()
}

// sendBytes is send for bytes outside a batch, when nothing is left over.
func (s *socketWriter) sendBytes(raw syscall.RawConn, b []byte) {
	s.iov, s.taken = [][]byte{b}, 0
	if err := raw.Write(s.attempt); err != nil && s.err == nil {
		s.err = err
	}
	s.iov = nil
	if s.err == nil && s.taken < len(b) {
		s.left, s.from = s.buffers.get(len(b)-s.taken), 0
		s.to = copy(s.left.mem, b[s.taken:])
	}
}

// tryBatch is one writing system call.
func (s *socketWriter) tryBatch(fd uintptr) bool {
	for {
		n, err := unix.Writev(int(fd), s.iov)
		switch {
		case err == nil:
			s.taken = n
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EAGAIN):
			s.err = err
		}
		return true
	}
}

// wait writes the bytes left over, and waits until the socket takes them.
func (s *socketWriter) wait(raw syscall.RawConn) {
	if s.left == nil || s.err != nil {
		return
	}
	if err := raw.Write(s.remainder); err != nil && s.err == nil {
		s.err = err
	}
}

// tryRest writes until nothing is left, or the socket is full: false.
func (s *socketWriter) tryRest(fd uintptr) bool {
	for s.from < s.to {
		n, err := unix.Write(int(fd), s.left.mem[s.from:s.to])
		switch {
		case err == nil:
			s.from += n
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return false
		default:
			s.err = err
			return true
		}
	}
	s.discard()
	return true
}

// discard drops the bytes left over.
func (s *socketWriter) discard() {
	if s.left != nil {
		s.left.put()
		s.left = nil
	}
}
