package loopback

// payload is the data of a message that is being delivered: the sender's memory or a copy
// of it. It is read once, in order.
type payload struct {
	sgl  []sge // acquired
	i    int   // first entry not completely read
	off  int   // bytes read of it
	data []byte
}

// copyTo fills dst with the next bytes.
func (p *payload) copyTo(dst []byte) {
	if p.sgl == nil {
		p.data = p.data[copy(dst, p.data):]
		return
	}
	for len(dst) > 0 {
		g := &p.sgl[p.i]
		n := copy(dst, g.b[p.off:])
		dst = dst[n:]
		p.off += n
		if p.off == len(g.b) {
			p.i, p.off = p.i+1, 0
		}
	}
}

// scatter copies n bytes to list, which is long enough and acquired.
func (p *payload) scatter(list []sge, n int) {
	for i := range list {
		g := &list[i]
		part := min(n, len(g.b))
		p.copyTo(g.b[:part])
		n -= part
	}
}

// gather copies the n bytes of list.
func gather(list []sge, n int) []byte {
	if list == nil {
		return nil
	}
	data := make([]byte, n)
	p := payload{sgl: list}
	p.copyTo(data)
	return data
}
