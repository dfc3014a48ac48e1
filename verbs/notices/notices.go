// Package notices reports when files can be read. One goroutine serves all files of a
// provider, so that an idle connection or completion queue needs none of its own.
package notices

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Notices reports, once per request, that a file can be read. All methods may be called from
// any goroutine.
type Notices struct {
	epoll *os.File
	fd    int // of epoll
	raw   syscall.RawConn
	come  func(key uint64)
	done  chan struct{}
}

// New returns notices that call come for each readable file, with the caller's key. come
// must not block or call Close. The caller must call Close.
func New(come func(key uint64)) (*Notices, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for the runtime's poller
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	n := &Notices{epoll: os.NewFile(uintptr(fd), "epoll"), fd: fd, come: come, done: make(chan struct{})}
	if n.raw, err = n.epoll.SyscallConn(); err != nil {
		_ = n.epoll.Close()
		return nil, err
	}
	go n.watch()
	return n, nil
}

// Request arranges that come is called once when the file can be read, at once if it can be
// read now.
func (n *Notices) Request(fd int, key uint64) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	err := unix.EpollCtl(n.fd, unix.EPOLL_CTL_MOD, fd, &e)
	if errors.Is(err, unix.ENOENT) {
		err = unix.EpollCtl(n.fd, unix.EPOLL_CTL_ADD, fd, &e)
	}
	return err
}

// Withdraw takes a request back. come may still be called for it.
func (n *Notices) Withdraw(fd int) {
	_ = unix.EpollCtl(n.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: unix.EPOLLONESHOT})
}

// Forget ends the watching of a file. Call it before the file is closed, if another
// descriptor refers to the same file.
func (n *Notices) Forget(fd int) {
	_ = unix.EpollCtl(n.fd, unix.EPOLL_CTL_DEL, fd, nil) // fails for a file that was never watched
}

// watch calls come for readable files until Close.
func (n *Notices) watch() {
	defer close(n.done)
	events := make([]unix.EpollEvent, 64)
	for {
		var ready int
		err := n.raw.Read(func(fd uintptr) bool {
			ready, _ = unix.EpollWait(int(fd), events, 0) // does not wait
			return ready > 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:ready] {
			n.come(uint64(uint32(e.Pad))<<32 | uint64(uint32(e.Fd)))
		}
	}
}

// Close ends all watching, and waits until come has returned.
func (n *Notices) Close() {
	_ = n.epoll.Close()
	<-n.done
}
