package referee

// assembly holds the known start of a message that RDMA Read or RDMA Write
// transfers.
type assembly struct {
	buf    []byte
	have   spans
	lost   bool     // some of the transferred data was not seen
	parked *message // a message that waits until its first words show its direction
}

// keep stores data of a Read or Write of length bytes at its place in the
// message, up to maxPrefix. If data is missing or memory is full, b is lost.
func (r *Referee) keep(b *assembly, at uint64, data []byte, length int) {
	if b.lost || at >= maxPrefix {
		return
	}
	if want := min(uint64(length), maxPrefix-at); uint64(len(data)) < want {
		b.lost = true
		return
	}
	data = data[:min(uint64(length), maxPrefix-at)]
	end := int(at) + len(data)
	if end > cap(b.buf) {
		size := min(max(end, 2*cap(b.buf), 1024), maxPrefix)
		if r.memory.kept+size-cap(b.buf) > maxKept {
			b.lost = true
			return
		}
		r.memory.kept += size - cap(b.buf)
		b.buf = append(make([]byte, 0, size), b.buf...)
	}
	b.buf = b.buf[:max(end, len(b.buf))]
	copy(b.buf[at:], data)
	b.have.add(at, uint64(len(data)))
}

// start returns the known bytes of the message from its first byte on.
func (b *assembly) start() []byte {
	if b == nil || b.lost || b.have.lost || len(b.have.list) == 0 || b.have.list[0].from != 0 {
		return nil
	}
	return b.buf[:min(int(b.have.list[0].to), len(b.buf))]
}
