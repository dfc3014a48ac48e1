package nfs

import (
	"cmp"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/dataplane/nfs/internal/posix"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// read is READ (RFC 1813 §3.3.6). The data goes from the file into memory
// that the transport sends from.
func (r *request) read() error {
	handle := r.handle()
	offset, count := r.args.Uint64(), r.args.Uint32()
	if err := r.decoded(); err != nil {
		return err
	}
	o, err := r.regular(handle)
	var buf oncrpc.Buffer
	var n int
	if err == nil {
		buf, n, err = r.readData(o, offset, int(min(count, MaxIO)))
	}
	if !r.inside {
		o.release()
		return err
	}
	if r.begin(err) {
		r.appendRead(offset, count, buf, n)
	} else {
		r.appendAttrOf(o)
	}
	o.release()
	return nil
}

// readData reads up to count bytes, and then gets the attributes (r.st) to check whether
// the caller may have the data. The buffer is nil if there is no data.
func (r *request) readData(o *object, offset uint64, count int) (oncrpc.Buffer, int, error) {
	fd, size := o.opened(), o.size.Load()
	if fd < 0 || offset >= uint64(size) || count == 0 {
		return r.readAfresh(o, offset, count)
	}
	want := int(min(uint64(count), uint64(size)-offset))
	buf, n, err := r.fill(fd, offset, want)
	if err != nil && !r.inside {
		return nil, 0, err
	}
	if err != nil {
		return r.readAfresh(o, offset, count)
	}
	err = r.mayShow(o)
	grown := n == want && want < count && offset+uint64(n) < uint64(r.st.Size)
	if (err != nil || grown) && buf != nil {
		buf.Release()
	}
	if err != nil {
		return nil, 0, err
	}
	if grown {
		return r.readAfresh(o, offset, count)
	}
	return buf, n, nil
}

// readAfresh is readData for a file of which too little is known. It gets the attributes
// first.
func (r *request) readAfresh(o *object, offset uint64, count int) (oncrpc.Buffer, int, error) {
	if err := r.mayShow(o); err != nil {
		return nil, 0, err
	}
	fd, err := o.reader()
	if err != nil {
		return nil, 0, err
	}
	if offset >= uint64(r.st.Size) || count == 0 {
		return nil, 0, nil
	}
	buf, n, err := r.fill(fd, offset, int(min(uint64(count), uint64(r.st.Size)-offset)))
	if err == nil {
		err = o.stat(&r.st)
	}
	if err != nil && buf != nil {
		buf.Release()
	}
	if err != nil {
		return nil, 0, err
	}
	return buf, n, nil
}

// mayShow gets the attributes of a file and checks that the caller may read it.
func (r *request) mayShow(o *object) error {
	if err := o.stat(&r.st); err != nil {
		return err
	}
	return r.srv.mayUse(o, &r.cred, &r.st, mayRead)
}

// fill reads up to count bytes into a buffer. The buffer is nil if there is no data.
func (r *request) fill(fd int, offset uint64, count int) (oncrpc.Buffer, int, error) {
	buf, err := r.alloc(count)
	if err != nil {
		return nil, 0, err
	}
	n, err := posix.Read(fd, buf.Bytes()[:count], int64(offset))
	if err != nil || n == 0 {
		buf.Release()
		return nil, 0, err
	}
	return buf, n, nil
}

// alloc gets memory for n bytes of the reply. That may take long when clients don't read
// their replies.
func (r *request) alloc(n int) (buf oncrpc.Buffer, err error) {
	r.outside(func() { buf, err = r.reply.Mem.Alloc(r.ctx, n) })
	if !r.inside && err == nil {
		buf.Release()
		err = r.ctx.Err()
	}
	return buf, err
}

// outside waits for something without a thread, so the call is out of the export's crowd
// meanwhile. It stays out when its client is gone.
func (r *request) outside(wait func()) {
	crowd := &r.srv.export.crowd
	if r.inside {
		r.inside = false
		crowd.leave()
	}
	wait()
	r.inside = crowd.enter(r.ctx)
}

// appendRead appends the results of a READ of count bytes that read n bytes into buf. If it
// got none, the file ended there, even if it has grown since: Linux clients take no data
// without the end of the file for an error.
func (r *request) appendRead(offset uint64, count uint32, buf oncrpc.Buffer, n int) {
	r.appendPostOp(&r.st)
	dst := xdr.AppendUint32(r.reply.Stream, uint32(n))
	dst = xdr.AppendBool(dst, offset+uint64(n) >= uint64(r.st.Size) || (n == 0 && count > 0))
	r.reply.Stream = xdr.AppendUint32(dst, uint32(n))
	if buf != nil {
		r.reply.AppendItem(buf, n)
	}
}

// write is WRITE (RFC 1813 §3.3.7). The data goes directly from the transport's memory into
// the file.
func (r *request) write() error {
	handle := r.handle()
	offset, count := r.args.Uint64(), r.args.Uint32()
	how := nfsv3.StableHow(r.args.Uint32())
	r.data = r.call.Args.Parts(r.data[:0], &r.args, maxWriteData)
	if r.decoded() != nil || uint64(count) != uint64(length(r.data)) || how > nfsv3.FILE_SYNC || how < 0 {
		return errGarbage
	}
	// Loaded before the data is written: if it is renewed meanwhile, the client writes once
	// more than necessary instead of once too little.
	verifier := r.srv.verifier.Load()
	o, err := r.regular(handle)
	c := r.change(o)
	n := 0
	if err == nil {
		n, err = r.writeData(o, offset, shorten(r.data, MaxIO), how)
	}
	ok := r.begin(err)
	r.appendWCC(&c)
	if ok {
		dst := xdr.AppendUint32(r.reply.Stream, uint32(n))
		dst = xdr.AppendUint32(dst, uint32(how))
		r.reply.Stream = xdr.AppendUint64(dst, verifier)
	}
	o.release()
	return nil
}

// maxWriteData limits the data of a WRITE before it is cut to MaxIO.
const maxWriteData = 1 << 30

// length returns the number of bytes of data in parts.
func length(data [][]byte) (n int) {
	for _, part := range data {
		n += len(part)
	}
	return n
}

// shorten cuts data to at most n bytes.
func shorten(data [][]byte, n int) [][]byte {
	for i, part := range data {
		if len(part) >= n {
			data[i] = part[:n]
			return data[:i+1]
		}
		n -= len(part)
	}
	return data
}

// writeData writes data and returns how much it wrote. If an error comes after a part was
// written, the answer reports that part. The client's next WRITE then gets the error.
func (r *request) writeData(o *object, offset uint64, data [][]byte, how nfsv3.StableHow) (int, error) {
	if err := r.changeable(o); err != nil {
		return 0, err
	}
	if offset > r.srv.maxFile || uint64(length(data)) > r.srv.maxFile-offset {
		return 0, errFBig
	}
	var earlier uint64
	refusals := o.refusals.Load()
	n, level, waits := 0, r.srv.syncLevel(how), false
	err := r.srv.asWriter(o, &r.cred, &r.pre, func(fd int) (err error) {
		// A client that is gone may have repeated the call on another connection, and have
		// written other data since.
		if err := r.ctx.Err(); err != nil {
			return err
		}
		if how == nfsv3.UNSTABLE && len(data) > 0 {
			defer o.dirty.Store(true) // a COMMIT at this moment may come before the data
		}
		if level != posix.NoSync {
			if pace := &r.srv.export.syncs; !r.srv.lacksSpace() && o.syncs.alone(pace) {
				n, err = posix.Write(fd, data, int64(offset), level)
				o.syncs.end(pace, r.srv.lostBy(o, r.call, fd, offset+uint64(n), err))
				return err
			}
			waits, earlier = true, o.syncs.now()
		}
		n, err = posix.Write(fd, data, int64(offset), posix.NoSync)
		r.srv.refused(o, r.call, waits, err)
		return err
	})
	if waits && n > 0 {
		err := r.sync(o, int(o.write.Load()), level == posix.FileSync)
		if err == nil {
			err = o.syncs.since(earlier)
		}
		if err != nil {
			return 0, err
		}
	}
	if n > 0 && level != posix.NoSync && o.refusals.Load() != refusals {
		return 0, cmp.Or(err, error(errJukebox)) // the data may be what was lost, though the sync has succeeded
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// syncLevel returns what a WRITE must wait for.
func (s *subtree) syncLevel(how nfsv3.StableHow) posix.Sync {
	switch {
	case s.volatile:
		return posix.NoSync
	case how == nfsv3.DATA_SYNC:
		return posix.DataSync
	case how == nfsv3.FILE_SYNC:
		return posix.FileSync
	}
	return posix.NoSync
}

// commit is COMMIT (RFC 1813 §3.3.21). It always commits the whole file.
func (r *request) commit() error {
	handle := r.handle()
	r.args.Uint64() // offset
	r.args.Uint32() // count
	if err := r.decoded(); err != nil {
		return err
	}
	o, err := r.regular(handle)
	c := r.change(o)
	if err == nil {
		err = r.commitData(o)
	}
	ok := r.begin(err)
	r.appendWCC(&c)
	if ok {
		r.reply.Stream = xdr.AppendUint64(r.reply.Stream, r.srv.verifier.Load())
	}
	o.release()
	return nil
}

func (r *request) commitData(o *object) error {
	if err := r.changeable(o); err != nil {
		return err
	}
	if err := r.srv.mayUse(o, &r.cred, &r.pre, mayWrite); err != nil {
		return err
	}
	fd, err := o.commitFD()
	if err != nil {
		return err
	}
	o.dirty.Store(false)
	if r.srv.volatile {
		return nil
	}
	return r.sync(o, fd, false)
}
