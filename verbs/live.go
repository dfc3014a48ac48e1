package verbs

// Live counts the objects of a device that exist: created and not closed.
type Live struct {
	PDs, MRs, MWs, CQs, QPs int
}

// Total is the sum of all counts; 0 when nothing is left.
func (l Live) Total() int { return l.PDs + l.MRs + l.MWs + l.CQs + l.QPs }

// LiveCounter is an optional interface of a Device. Providers written in Go
// implement it, so that tests find objects that were never closed
// (verbstest's leak gate asks every device for it).
type LiveCounter interface {
	Live() Live
}
