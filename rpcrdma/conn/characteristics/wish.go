package characteristics

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// The text lets a receiver lower its Receive Buffer Size only after the sender has
// asked for that, and gives it no way to say that it would like to. So the receiver
// tells its wish as a characteristic of the range for experiments (docs/protocol.md,
// docs/adr/0023). A peer that knows it answers with the REQUEST of the text. Other
// peers skip it, and nothing changes.

// charReceiveWish is the characteristic: u32, the receive size in bytes that the
// sender's settings want.
const charReceiveWish = rpcrdma2.CharExperimentalLow + 0x52

// wish is the part of a State that has receives become smaller. Sizes are in bytes.
type wish struct {
	own   uint32 // the size that our settings want
	known uint32 // our wish as the peer was told; 0: it has to be told
	told  uint32 // the peer's; 0: the peer knows nothing of wishes
	ask   bool   // the peer is to be asked for told
	// floor is, when not 0, an earlier wish that the peer may still ask for although
	// we have sent another one.
	floor uint32
}

// next gives the wish to send, and says whether to send it now. known is our receive
// size as the peer knows it; clear says that no answer longer than our wish may come.
// A peer that has sent no wish gets none that would make it ask, because we do not
// plan for a smaller size yet.
func (w *wish) next(known uint32, clear bool) (size uint32, tell bool) {
	if w.told == 0 {
		return max(w.own, known), w.known == 0
	}
	return w.own, w.own != w.known && (clear || w.own >= known)
}

// sent notes that a wish is sent to the peer.
func (w *wish) sent(size, known uint32) {
	if w.known = size; size < known && (w.floor == 0 || size < w.floor) {
		w.floor = size
	}
}

// raised notes that larger receives are announced. The peer compared our wish with
// the old size, so that a lower wish has to be sent again.
func (w *wish) raised(size uint32) {
	if size > w.known {
		w.known = 0
	}
}

// planned is the most bytes of one Send of the peer to plan for, where it knows that
// our receives have known bytes.
func (w *wish) planned(known uint32) uint32 {
	if w.told != 0 {
		known = min(known, w.own)
	}
	if w.floor != 0 {
		known = min(known, w.floor)
	}
	return known
}

// floored says that less is planned for than we want, because the peer may still ask
// for an earlier wish.
func (w *wish) floored() bool { return w.floor != 0 && w.floor < w.known }

// acknowledged notes that all of our UPDATEs have arrived: the peer asks for no
// wish but the last.
func (w *wish) acknowledged(known uint32) {
	if w.floor = 0; w.known < known {
		w.floor = w.known
	}
}

// asked notes that the peer asks for a size. granted says that it gets exactly that
// size; otherwise the wish has to be sent again before the peer asks once more.
func (w *wish) asked(size uint32, granted bool) {
	if size == w.known && !granted {
		w.known = 0
	}
}

// learn takes the wish of the peer, whose receives have size bytes. mayAsk says that
// the peer did not fix that size.
func (w *wish) learn(told, size uint32, mayAsk bool) {
	if told >= LeastReceive {
		w.told, w.ask = told, told < size && mayAsk
	}
}

func wishOf(size uint32) rpcrdma2.Characteristic {
	return rpcrdma2.Characteristic{ID: charReceiveWish, Data: xdr.AppendUint32(nil, size)}
}

// wishIn is the wish that a characteristic holds, or otherwise when it is malformed:
// what is not ours to define is skipped.
func wishIn(c rpcrdma2.Characteristic, otherwise uint32) uint32 {
	if len(c.Data) != xdr.Unit {
		return otherwise
	}
	return binary.BigEndian.Uint32(c.Data)
}
