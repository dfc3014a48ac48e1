package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// Action is one thing that a role asks the caller to do. Each type below holds what that
// action needs and nothing else.
//
// The caller starts the actions of an event in order, and starts all of them before it
// gives the connection's next event. The roles rely on this order:
//
//   - Repost, FreeReceive and PostReceives come before the Send that grants credits for
//     these receives. So each call finds a posted receive;
//   - Take comes before the Repost or FreeReceive of the receives that it copies from,
//     and before the Complete or Fence of its call;
//   - Write, Send, Ready, SendDone, Complain and Tell put messages into the send queue in the
//     order of the actions. The peer counts credits in that order;
//   - Report may come anywhere. It changes nothing;
//   - Disconnect and Fail are the last action of their role. After Fail, or when the
//     connection ended for another reason, the caller carries out only Take and Complete
//     of that event.
//
// The caller only starts long actions in order. They may finish in any order. When one
// finishes, the caller gives the event that the action's type names.
//
// An event appends its actions to the slice it receives. The caller reuses that slice, so a
// message costs no allocation: actions of the hot path are one pointer in size, or come
// from a table (Repost).
type Action interface{ action() }

// Actions of both roles.
type (
	// Repost asks to post the receive Recv again. The role no longer needs its message.
	Repost struct{ Recv uint32 }
	// FreeReceive asks to free the memory of the receive Recv.
	FreeReceive struct{ Recv uint32 }
	// PostReceives asks to post N more receives. Then give Posted.
	PostReceives struct{ N int }
	// Tell asks to send Body, a complete message that is not a call. Then give Told. The
	// caller owns Body.
	Tell struct{ Body []byte }
	// Resize asks to use N bytes for receives posted from now on, as posted receives are
	// consumed. Then give Resized.
	Resize struct{ N int }
	// Changed reports that the peer changed its characteristics, or was asked to. Pass this
	// to the role of the reverse direction.
	Changed struct{}
	// Fail asks to end the connection because of Err.
	Fail struct{ Err error }
)

// Actions of a responder.
type (
	// Fetch asks to get memory for each of Call.Reads.Chunks and to post the RDMA Reads of
	// Call.Fetches into it. Then give Fetched, or NoMemory if there is no memory.
	Fetch struct{ Call *Call }
	// Deliver asks to run the service for Call.RPC. Then give Reply.
	Deliver struct{ Call *Call }
	// Expose asks to let the peer read the chunks of Call.Exposure. Then give Exposed, or
	// NotExposed if there is no memory.
	Expose struct{ Call *Call }
	// Write asks to post the RDMA Writes of Call.Ahead, whose data comes from the result
	// that Filled was given for.
	Write struct{ Call *Call }
	// Send asks to post the RDMA Writes and the Sends of Call.Answer. Then give Sent.
	Send struct{ Call *Call }
	// Unexpose asks to invalidate the memory of Exposure. Then give Unexposed.
	Unexpose struct{ Exposure *Exposure }
	// Report asks to log that a message of the peer was refused or dropped because of Err.
	// Expected means that this is no fault of the peer.
	Report struct {
		Err      error
		Expected bool
	}
	// Disconnect asks to end the connection after all earlier actions are complete.
	Disconnect struct{}
)

// Actions of a requester.
type (
	// Ready reports that Out may go out now. Give Launch.
	Ready struct{ Out *Outgoing }
	// Take asks to copy out Out.Parts, the reply that came inline, and Out.Placed.
	Take struct{ Out *Outgoing }
	// FetchReply asks to get memory for each of Reading.Reads.Chunks and to post the RDMA
	// Reads of Reading.Fetches into it. Then give ReplyFetched.
	FetchReply struct{ Reading *Reading }
	// SendDone asks to send the header that Done returns for XID.
	SendDone struct{ XID uint32 }
	// Complain asks to send the header that Complaint returns.
	Complain struct{}
	// Fence asks to post what Build makes, unless that is done, and then to invalidate the
	// windows of Out that are not Revoked. There may be none. Then give Fenced.
	Fence struct{ Out *Outgoing }
	// Complete reports that Out has ended. Out.Err is the outcome.
	Complete struct{ Out *Outgoing }
)

func (Repost) action()       {}
func (FreeReceive) action()  {}
func (PostReceives) action() {}
func (Tell) action()         {}
func (Resize) action()       {}
func (Changed) action()      {}
func (Fail) action()         {}
func (Fetch) action()        {}
func (Deliver) action()      {}
func (Expose) action()       {}
func (Write) action()        {}
func (Send) action()         {}
func (Unexpose) action()     {}
func (Report) action()       {}
func (Disconnect) action()   {}
func (Ready) action()        {}
func (Take) action()         {}
func (FetchReply) action()   {}
func (SendDone) action()     {}
func (Complain) action()     {}
func (Fence) action()        {}
func (Complete) action()     {}

// giveBack returns the action for a consumed receive: Repost with again, else FreeReceive.
func giveBack(recv uint32, again bool) Action {
	switch {
	case !again:
		return FreeReceive{recv}
	case recv < uint32(len(reposts)):
		return reposts[recv]
	}
	return Repost{recv}
}

// reposts holds the Repost actions of all receives that a connection may have. An interface
// that holds a number needs an allocation, and each message has a Repost.
var reposts = func() (all [settings.CreditsLimit + MaxExposures + settings.ReverseLimit + 2*credit.Slack]Action) {
	for i := range all {
		all[i] = Repost{uint32(i)}
	}
	return all
}()
