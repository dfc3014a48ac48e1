package softiwarp

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs/bulk"
)

// socketWriter writes batches to a socket without waiting. It copies bytes that the socket
// did not take into a buffer of its own. So after send it does not refer to the consumer's
// memory.
type socketWriter struct {
	buffers *buffers
	leftover
	bulk bool  // the last batch was a large one
	err  error // the socket has failed

	iov                [][]byte
	taken              int
	attempt, remainder func(fd uintptr) bool
}

// leftover is the bytes that a write left over.
type leftover struct {
	left     *buffer // nil when there are none
	from, to int
}

func (s *socketWriter) init(buffers *buffers) {
	s.buffers = buffers
	s.attempt = s.tryBatch
	s.remainder = s.tryRest
}

// pending returns the bytes that a write left over. They are valid until the next write.
func (l *leftover) pending() []byte {
	if l.left == nil {
		return nil
	}
	return l.left.mem[l.from:l.to]
}

// discard drops the bytes left over.
func (l *leftover) discard() {
	if l.left != nil {
		l.left.put()
		l.left = nil
	}
}

// writeTo writes the bytes left over, until conn's deadline. It drops those that conn does not take.
func (l leftover) writeTo(conn *net.TCPConn) error {
	s := socketWriter{leftover: l}
	defer s.discard()
	s.init(nil) // nothing more is left over
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	s.wait(raw)
	return s.err
}

// send writes b, as far as the socket takes it, and resets b.
func (s *socketWriter) send(raw syscall.RawConn, b *batch) {
	s.iov = b.finish()
	if len(s.iov) == 0 {
		return
	}
	s.taken = 0
	placed := bulk.Enter(b.total)
	if !placed && !s.bulk { // not the end of something large
		bulk.Small()
	}
	s.bulk = placed
	if err := raw.Write(s.attempt); err != nil && s.err == nil {
		s.err = err
	}
	bulk.Leave(placed)
	s.iov = nil
	if s.err == nil && s.taken < b.total {
		s.left, s.from, s.to = b.keep(s.taken)
	}
	b.reset()
}

// sendBytes is like send, for bytes outside a batch. No bytes may be left over.
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

// tryBatch makes one writing system call.
func (s *socketWriter) tryBatch(fd uintptr) bool {
	for {
		n, err := s.write(int(fd))
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

// write uses the cheaper plain write for a single element.
func (s *socketWriter) write(fd int) (int, error) {
	if len(s.iov) == 1 {
		return unix.Write(fd, s.iov[0])
	}
	return unix.Writev(fd, s.iov)
}

// wait writes the bytes left over. It waits until the socket takes all of them.
func (s *socketWriter) wait(raw syscall.RawConn) {
	if s.left == nil || s.err != nil {
		return
	}
	if err := raw.Write(s.remainder); err != nil && s.err == nil {
		s.err = err
	}
}

// tryRest writes until nothing is left. It returns false when the socket is full.
func (s *socketWriter) tryRest(fd uintptr) bool {
	for s.from < s.to {
		placed := bulk.Enter(s.to - s.from)
		n, err := unix.Write(int(fd), s.left.mem[s.from:s.to])
		bulk.Leave(placed)
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
