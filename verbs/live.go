package verbs

// Live counts the existing objects of a device.
type Live struct {
	PDs, MRs, MWs, CQs, QPs int
}

// Total returns the sum of all counts.
func (l Live) Total() int { return l.PDs + l.MRs + l.MWs + l.CQs + l.QPs }

// LiveCounter is an optional interface of a Device. Providers written in Go implement it,
// so that tests find objects that were never closed (verbstest's leak gate).
type LiveCounter interface {
	Live() Live
}
