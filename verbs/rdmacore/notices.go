//go:build rdmacore && cgo

package rdmacore

import (
	"errors"

	"golang.org/x/sys/unix"
)

// notices reports, once per request, that a watched file can be read. One goroutine serves
// all files. Otherwise each idle completion queue would need its own goroutine.
type notices struct {
	epoll  int
	events descriptor // of epoll
	come   func(key uint64)
	done   chan struct{}
}

// newNotices returns notices that call come for each readable file, with the caller's key.
func newNotices(come func(key uint64)) (*notices, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	n := &notices{epoll: fd, come: come, done: make(chan struct{})}
	err = unix.SetNonblock(fd, true) // for the runtime's poller
	if err == nil {
		n.events, err = newDescriptor(fd, "completion channels")
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	go n.watch()
	return n, nil
}

// request arranges that come is called once when the file can be read, at once if it can be
// read now.
func (n *notices) request(fd int, key uint64) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	err := unix.EpollCtl(n.epoll, unix.EPOLL_CTL_MOD, fd, &e)
	if errors.Is(err, unix.ENOENT) {
		err = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd, &e)
	}
	return err
}

// forget ends the watching of a file. Call it before the file is closed.
func (n *notices) forget(fd int) {
	_ = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_DEL, fd, nil) // fails for a file that was never watched
}

// watch calls come for readable files until close.
func (n *notices) watch() {
	defer close(n.done)
	events := make([]unix.EpollEvent, 64)
	for {
		var ready int
		err := n.events.wait(func(uintptr) bool {
			ready, _ = unix.EpollWait(n.epoll, events, 0) // does not wait
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

func (n *notices) close() {
	n.events.close()
	<-n.done
	_ = unix.Close(n.epoll)
}
