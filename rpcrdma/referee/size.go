package referee

import "unsafe"

// Memory that a Referee keeps, in bytes: for a window, for a call and for a
// Read, each with what belongs to it, and for an idle connection.
const (
	windowSize = int(unsafe.Sizeof(window{})+unsafe.Sizeof(segment{})) + perWindow
	callSize   = int(unsafe.Sizeof(call{})+unsafe.Sizeof(message{})) + perCall
	readSize   = int(unsafe.Sizeof(pendingRead{}))
	traitsSize = int(unsafe.Sizeof(said[traits]{}))
	idleSize   = int(unsafe.Sizeof(Referee{})) + 4*int(unsafe.Sizeof(direction{})) + 2<<10

	perWindow = 192 // in maps and lists, and the written ranges
	perCall   = 512 // in maps, lists and assemblies
)

// Size returns about how much memory the Referee uses, in bytes. It estimates
// high rather than low.
func (r *Referee) Size() int {
	n := idleSize + r.memory.kept + r.memory.count*windowSize + r.v2.directions*int(unsafe.Sizeof(direction2{}))
	for s, d := range r.dirs {
		n += 4 * (cap(d.answered.list) + cap(d.repeated))
		n += (len(d.calls)+len(d.exposed))*callSize + len(r.memory.reads[s])*readSize
		n += r.v2.sides[s].size()
	}
	return n
}

func (s *side2) size() int {
	n := cap(s.recent.list) * int(unsafe.Sizeof(sent2{}))
	n += len(s.own.calls)*callSize + 4*(cap(s.own.answered.list)+cap(s.own.repeated))
	for i := range s.traits.said {
		n += traitsSize
		if l := s.traits.said[i].value.structure; l != nil {
			n += len(l.targets) * int(unsafe.Sizeof(target{}))
		}
	}
	if g := s.group; g != nil {
		n += callSize + cap(g.stream) + cap(g.sent)*int(unsafe.Sizeof(transmission{})) + cap(g.items)*int(unsafe.Sizeof(item2{}))
	}
	return n
}
