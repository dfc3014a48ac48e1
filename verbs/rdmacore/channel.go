//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

// channel is an event channel of the connection manager. A provider has one for its
// connections, and each listener has one, so that requests can wait there while the events
// of connections are processed.
type channel struct {
	c      *C.struct_rdma_event_channel
	events descriptor
}

func openChannel() (*channel, error) {
	ch := new(channel)
	var rc C.int
	atHome(func() { rc = C.rdmad_create_channel(&ch.c) })
	if rc != 0 {
		return nil, failed("connection manager", rc)
	}
	var err error
	if ch.events, err = newDescriptor(int(ch.c.fd), "connection manager"); err != nil {
		ch.free()
		return nil, err
	}
	return ch, nil
}

// free frees the channel. It has no identifiers, and events is closed.
func (ch *channel) free() { C.rdma_destroy_event_channel(ch.c) }
