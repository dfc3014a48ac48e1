package transport

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// Sinks: the memory that RDMA Reads are placed in. The pool's memory has no rights for peers. Where
// an RDMA Read needs a sink that its peer may write to
// (verbs.DeviceAttr.ReadSinkRemoteWrite), the Reads of an op get a registration of
// their own, of the bytes that they fill and no others: the key that they tell opens
// nothing else, and opens nothing any more once the last of them has completed,
// before anybody looks at the data (RFC 5042 §6.2.2). Until then other connections of
// the host can use it, too, which share its protection domain (§6.1.1).
//
// Each message whose chunks are being read has one at most, so that receives bound
// their number.

// sinks are those of a link that exist.
type sinks map[verbs.MR]struct{}

// prepareSink registers the first n bytes of b for the Reads that will be added
// to o, where the device wants that.
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

// sinkOf names n bytes from off of b, for a Read of o.
func (o *op) sinkOf(b *regmem.Buffer, off, n int) verbs.SGE {
	if o.sink != nil {
		return verbs.SGE{MR: o.sink, Offset: off, Length: n}
	}
	return b.SGE(off, n)
}

// closeSink ends the registration of an op whose Reads have completed. On an error
// the connection ends: the peer may still write to what was read.
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

// closeAll ends what is left at the connection's end. The queue pair is gone.
func (s sinks) closeAll() (err error) {
	for mr := range s {
		err = errors.Join(err, mr.Close())
		delete(s, mr)
	}
	return err
}
