package conn

import "github.com/rdmad/rdmad/rpcrdma/credit"

// Action is one thing that a role wants done. Its type is one of those below, and
// holds what is needed for it and nothing else.
//
// The actions of an event are carried out in their order, each begun before the
// next, and all of them before the next event of the connection is given. The
// roles count on these orders:
//
//   - receives first: Repost, FreeReceive and PostReceives stand before the Send
//     that grants credits for them, so that no call finds a receive missing;
//   - Take stands before the Repost or FreeReceive of the receives whose bytes it
//     copies, and before the Complete or Fence of its call;
//   - Send, Ready, SendDone, Complain and Tell put messages into the send queue in
//     the order of the actions: the peer counts credits by that order;
//   - Report stands anywhere: it changes nothing;
//   - Disconnect and Fail are the last action of their role. After Fail, and after
//     the end of the connection for another reason, only Take and Complete of that
//     event are still carried out.
//
// Actions that take time are only begun in order. They end in any order, each with
// the event that its type names.
//
// An event appends its actions to the slice that it is given. The caller reuses the
// slice, so that a message costs no allocation: actions of the hot path are of the
// size of a pointer, or come from a table (Repost).
type Action interface{ action() }

// Actions of both roles.
type (
	// Repost asks to post the receive Recv again. Its message is no longer needed.
	Repost struct{ Recv uint32 }
	// FreeReceive asks to give back the memory of the receive Recv.
	FreeReceive struct{ Recv uint32 }
	// PostReceives asks to post N more receives, then to give Posted.
	PostReceives struct{ N int }
	// Tell asks to send Body, a whole message without a call, then to give Told.
	// Body is the caller's from then on.
	Tell struct{ Body []byte }
	// Resize asks to post receives of N bytes from now on in place of those that
	// are used up, then to give Resized.
	Resize struct{ N int }
	// Changed says that the peer changed its characteristics. The role of the
	// reverse direction may have to know.
	Changed struct{}
	// Fail asks to end the connection because of Err.
	Fail struct{ Err error }
)

// Actions of a responder.
type (
	// Fetch asks to get memory for each of Call.Reads.Chunks, to post the RDMA Reads
	// in Call.Fetches into it, then to give Fetched or, without memory, NoMemory.
	Fetch struct{ Call *Call }
	// Deliver asks to run the service for Call.RPC, then to give Reply.
	Deliver struct{ Call *Call }
	// Expose asks to let the peer read the chunks of Call.Exposure, then to give
	// Exposed or, without memory, NotExposed.
	Expose struct{ Call *Call }
	// Send asks to post the RDMA Writes and the Sends of Call.Answer, then to give
	// Sent.
	Send struct{ Call *Call }
	// Unexpose asks to invalidate the memory of Exposure, then to give Unexposed.
	Unexpose struct{ Exposure *Exposure }
	// Report says, for the log, that a message of the peer was refused or dropped
	// because of Err.
	Report struct{ Err error }
	// Disconnect asks to end the connection in order, after everything before.
	Disconnect struct{}
)

// Actions of a requester.
type (
	// Ready says that Out may go now: give Launch.
	Ready struct{ Out *Outgoing }
	// Take asks to copy Out.Parts, the reply that came inline, and Out.Placed.
	Take struct{ Out *Outgoing }
	// FetchReply asks to get memory for each of Reading.Reads.Chunks, to post the
	// RDMA Reads in Reading.Fetches into it, then to give ReplyFetched.
	FetchReply struct{ Reading *Reading }
	// SendDone asks to send the header that Done gives for XID.
	SendDone struct{ XID uint32 }
	// Complain asks to send the header that Complaint gives.
	Complain struct{}
	// Fence asks to invalidate those windows of Out that are not Revoked, then to
	// give Fenced.
	Fence struct{ Out *Outgoing }
	// Complete says that Out has ended, as Out.Err says.
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

// giveBack gives the receive recv back: again says that it is posted again.
func giveBack(recv uint32, again bool) Action {
	switch {
	case !again:
		return FreeReceive{recv}
	case recv < uint32(len(reposts)):
		return reposts[recv]
	}
	return Repost{recv}
}

// reposts are the Repost actions of all receives that a connection may have. An
// interface that holds a number is allocated, and each message has a Repost.
var reposts = func() (all [CreditsLimit + MaxExposures + ReverseLimit + 2*credit.Slack]Action) {
	for i := range all {
		all[i] = Repost{uint32(i)}
	}
	return all
}()
