package transport

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// Sinks: the memory that RDMA Reads fill. The pool's memory has no rights for peers. Some
// devices need a sink that the peer may write to (verbs.DeviceAttr.ReadSinkRemoteWrite).
// Then the Reads of an op get their own registration, of exactly the bytes that they fill.
// The peer learns its key. The key gives access to nothing else, and becomes invalid when
// the last Read has completed, before the service reads the data (RFC 5042 §6.2.2). Until then
// other connections of the host can use it, too, because they share the protection domain
// (§6.1.1).
//
// Each message whose chunks are being read has at most one sink, so the number of receives
// limits the number of sinks.

// sinks is the set of a link's sinks.
type sinks map[verbs.MR]struct{}

// prepareSink registers the first n bytes of b for the Reads that will be added to o, if
// the device needs that.
func (l *link) prepareSink(o *op, b *regmem.Buffer, n int) error {
	if !l.host.attr.ReadSinkRemoteWrite {
		return nil
	}
	mr, err := l.host.pd.RegMR(b.Bytes()[:n:n], l.host.attr.SinkAccess())
	if err != nil {
		return fmt.Errorf("register memory to read into: %w", err)
	}
	if l.sinks == nil {
		l.sinks = make(sinks)
	}
	l.sinks[mr] = struct{}{}
	l.stats.Registrations++
	o.sink = mr
	return nil
}

// sinkOf returns the memory of n bytes of b from off, for a Read of o.
func (o *op) sinkOf(b *regmem.Buffer, off, n int) verbs.SGE {
	if o.sink != nil {
		return verbs.SGE{MR: o.sink, Offset: off, Length: n}
	}
	return b.SGE(off, n)
}

// closeSink ends the registration of an op whose Reads have completed. After an error the
// connection ends, because the peer may still write to what was read.
func (l *link) closeSink(o *op) bool {
	if o.sink == nil {
		return true
	}
	if err := o.sink.Close(); err != nil {
		l.dieLocked(fmt.Errorf("unregister memory that was read into: %w", err))
		return false
	}
	delete(l.sinks, o.sink)
	o.sink = nil
	return true
}

// closeAll closes the remaining sinks when the connection ends. The queue pair is
// destroyed.
func (s sinks) closeAll() (err error) {
	for mr := range s {
		err = errors.Join(err, mr.Close())
		delete(s, mr)
	}
	return err
}
