package characteristics

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// The text lets a receiver lower its Receive Buffer Size only after the sender asked for
// that, and gives the receiver no way to ask the sender to do so. So the receiver announces
// its wish as a characteristic of the experimental range (docs/protocol.md, docs/adr/0023).
// A peer that knows it answers with the REQUEST of the text. Other peers skip it.

// charReceiveWish is the characteristic: a u32, the receive size in bytes that the sender's
// settings ask for.
const charReceiveWish = rpcrdma2.CharExperimentalLow + 0x52

// wish is the part of a State that makes receives smaller. Sizes are in bytes.
type wish struct {
	own   uint32 // the size that our settings or Keep ask for, the larger one
	known uint32 // our wish as announced; 0 means that it must be announced
	told  uint32 // the peer's wish; 0 means that the peer does not know wishes
	ask   bool   // the peer must be asked for the size told
	// floor, if not 0, is an earlier wish that the peer may still ask for although we have
	// sent another.
	floor uint32
}

// next returns the wish to send, and whether to send it now. known is our receive size as
// the peer knows it. clear means that no answer longer than our wish can arrive. A peer
// that has sent no wish gets none that would make it ask, because we do not plan for a
// smaller size yet.
func (w *wish) next(known uint32, clear bool) (size uint32, tell bool) {
	if w.told == 0 {
		return max(w.own, known), w.known == 0
	}
	return w.own, w.own != w.known && (clear || w.own >= known)
}

// sent records that a wish was sent to the peer.
func (w *wish) sent(size, known uint32) {
	if w.known = size; size < known && (w.floor == 0 || size < w.floor) {
		w.floor = size
	}
}

// raised records that larger receives are announced. The peer compared our wish with the
// old size, so a lower wish must be sent again.
func (w *wish) raised(size uint32) {
	if size > w.known {
		w.known = 0
	}
}

// planned returns the largest Send of the peer to plan for, in bytes. known is our receive
// size as the peer knows it.
func (w *wish) planned(known uint32) uint32 {
	if w.told != 0 {
		known = min(known, w.own)
	}
	if w.floor != 0 {
		known = min(known, w.floor)
	}
	return known
}

// floored reports that we plan for less than we want, because the peer may still ask for an
// earlier wish.
func (w *wish) floored() bool { return w.floor != 0 && w.floor < w.known }

// acknowledged records that all our UPDATEs have arrived: the peer asks only for the last
// wish.
func (w *wish) acknowledged(known uint32) {
	if w.floor = 0; w.known < known {
		w.floor = w.known
	}
}

// asked records that the peer asks for a size. granted means that it gets exactly that
// size. Otherwise the wish must be sent again before the peer asks once more.
func (w *wish) asked(size uint32, granted bool) {
	if size == w.known && !granted {
		w.known = 0
	}
}

// learn records the wish of the peer, whose receives have size bytes. mayAsk means that the
// peer did not fix that size.
func (w *wish) learn(told, size uint32, mayAsk bool) {
	if told >= LeastReceive {
		w.told, w.ask = told, told < size && mayAsk
	}
}

func wishOf(size uint32) rpcrdma2.Characteristic {
	return rpcrdma2.Characteristic{ID: charReceiveWish, Data: xdr.AppendUint32(nil, size)}
}

// wishIn returns the wish in a characteristic, or otherwise if it is malformed: values in
// the experimental range are skipped, not refused.
func wishIn(c rpcrdma2.Characteristic, otherwise uint32) uint32 {
	if len(c.Data) != xdr.Unit {
		return otherwise
	}
	return binary.BigEndian.Uint32(c.Data)
}
