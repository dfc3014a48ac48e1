package referee

// rules2 are the rules of version 2 and its extensions.
var rules2 = []Rule{}

// version2 is what is kept of a connection that speaks version 2.
type version2 struct{}

func (v *version2) gap() {}

// message2 judges a message whose rdma_vers is 2.
func (r *Referee) message2(e *Event, m *message) {}

// threshold2 is the largest message of version 2 that a side may send, and 0
// if that is not known.
func (r *Referee) threshold2(from Side) int { return 0 }

// mayInvalidate2 says whether owner's peer may invalidate owner's STags, as far
// as version 2 agreed on it.
func (r *Referee) mayInvalidate2(owner Side) bool { return false }
