//go:build rdmacore && cgo

package rdmacore

import (
	"errors"

	"golang.org/x/sys/unix"
)

// notices tells once, for each file that it is asked to watch, that the file can be
// read. One goroutine does so for all files: those of idle completion queues would
// need one each.
type notices struct {
	epoll  int
	events descriptor // of epoll
	come   func(key uint64)
	done   chan struct{}
}

// newNotices calls come for each file that can be read. The keys are the caller's.
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

// request has come called when the file can be read, or at once when it can be now.
func (n *notices) request(fd int, key uint64) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(uint32(key)), Pad: int32(uint32(key >> 32))}
	err := unix.EpollCtl(n.epoll, unix.EPOLL_CTL_MOD, fd, &e)
	if errors.Is(err, unix.ENOENT) {
		err = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_ADD, fd, &e)
	}
	return err
}

// forget must be called before a file that was watched is closed.
func (n *notices) forget(fd int) {
	_ = unix.EpollCtl(n.epoll, unix.EPOLL_CTL_DEL, fd, nil) // fails for one that never was
}

// watch calls come until close.
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
