package conn

// pairSizes are the sizes of one end's receives, of those in use as well.
type pairSizes struct {
	size  int            // of new ones
	of    map[uint32]int // each
	grows bool           // some are smaller
}

func newPairSizes(size int) pairSizes { return pairSizes{size: size, of: make(map[uint32]int)} }

func (s *pairSizes) below() (n int) {
	for _, size := range s.of {
		if size < s.size {
			n++
		}
	}
	return n
}

func (p *pair) posted(who int) *[]uint32 {
	if who == 0 {
		return &p.cRecvs
	}
	return &p.sRecvs
}

// send sends a message of an end. No receive that it may find is smaller.
func (p *pair) send(from int, m arrival) {
	p.t.Helper()
	p.judges[from].sends(m.msg, m.inv)
	to := 1 - from
	for _, at := range *p.posted(to) {
		if len(m.msg) > p.sizes[to].of[at] {
			p.t.Fatalf("%d sends %d bytes, a receive of %d bytes is posted", from, len(m.msg), p.sizes[to].of[at])
		}
	}
	if to == 1 {
		p.toServer = append(p.toServer, m)
	} else {
		p.toClient = append(p.toClient, m)
	}
}

// lands gives the receive that a message takes.
func (p *pair) lands(who int, m arrival) uint32 {
	at := take(p.posted(who), 0)
	if len(m.msg) > p.sizes[who].of[at] {
		p.t.Fatalf("%d bytes arrive in a receive of %d", len(m.msg), p.sizes[who].of[at])
	}
	return at
}

// characterize carries out what is about characteristics, and keeps the sizes of
// receives up.
func (p *pair) characterize(who int, a Action) {
	s := &p.sizes[who]
	switch a := a.(type) {
	case Repost:
		s.of[a.Recv] = s.size
	case FreeReceive:
		delete(s.of, a.Recv)
	case Tell:
		// A peer that takes its messages lets Sends complete before many more follow.
		if p.telling[who]++; p.telling[who] > maxUnsent/2 {
			p.told(who)
		}
		p.send(who, arrival{msg: a.Body})
	case Resize:
		s.size = a.N
		s.grows = s.below() > 0
		p.resized(who)
	}
}

func (p *pair) resized(who int) {
	if who == 0 {
		p.client(p.c.Resized(p.sizes[0].below(), len(p.sizes[0].of), nil))
	} else {
		p.server(p.s.Resized(p.sizes[1].below(), len(p.sizes[1].of), nil))
	}
}

// grown tells the ends that no receive is smaller than wanted any more.
func (p *pair) grown() {
	for who := range p.sizes {
		if s := &p.sizes[who]; s.grows && s.below() == 0 {
			s.grows = false
			p.resized(who)
		}
	}
}

// told completes the Send of an operation.
func (p *pair) told(who int) {
	if p.telling[who]--; who == 0 {
		p.c.Told()
	} else {
		p.s.Told()
	}
}

// toldSteps are the completions of operations that were sent.
func (p *pair) toldSteps() (all []func()) {
	if p.telling[0] > 0 {
		all = append(all, func() { p.told(0) })
	}
	if p.telling[1] > 0 {
		all = append(all, func() { p.told(1) })
	}
	return all
}
