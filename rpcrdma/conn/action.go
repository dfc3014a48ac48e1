package conn

// Kind says what an Action asks for.
type Kind uint8

const (
	// Repost asks to post the receive Recv, which is free, again.
	Repost Kind = iota + 1
	// FreeReceive asks to give back the memory of the receive Recv, which is
	// no longer needed.
	FreeReceive
	// PostReceives asks to post N receives more, then to give Posted.
	PostReceives
	// Fetch asks a responder's caller to get memory for each of
	// Call.Reads.Chunks, post the RDMA Reads in Call.Fetches into it, then
	// give Fetched.
	Fetch
	// Deliver asks a responder's caller to run the service for Call.RPC, then
	// to give Reply.
	Deliver
	// Send asks a responder's caller to post the RDMA Writes and the Send that
	// Call.Answer describes; when they have completed, give Sent.
	Send
	// Ready tells a requester's caller that Out may go now: give Launch.
	Ready
	// Fence asks a requester's caller to invalidate Out's windows that are not
	// Revoked, then to give Fenced.
	Fence
	// Complete tells a requester's caller that Out has come to its end, as
	// Out.Err says.
	Complete
	// Take asks a requester's caller to copy Body, the reply that came inline,
	// for Out; it is valid until the next action.
	Take
	// TakeMore asks to append Body to what was taken for Out, which came in
	// several transmissions.
	TakeMore
	// Complain asks a requester's caller to send the header that Complaint
	// gives.
	Complain
	// Report tells a responder's caller, for the log, that a message of the
	// peer was refused or dropped because of Err.
	Report
	// Expose asks a responder's caller to let the peer read the chunks of
	// Call.Exposure, then to give Exposed or, without memory, NotExposed.
	Expose
	// Unexpose asks a responder's caller to invalidate the memory of Exposure,
	// then to give Unexposed.
	Unexpose
	// FetchReply asks a requester's caller to get memory for each of
	// Reading.Reads.Chunks, post the RDMA Reads in Reading.Fetches into it,
	// then give ReplyFetched.
	FetchReply
	// SendDone asks a requester's caller to send the header that Done gives
	// for XID.
	SendDone
	// Tell asks to send Body, a whole message without a call, then to give Told.
	// Body is the caller's.
	Tell
	// Resize asks to post receives of N bytes from now on in place of those that
	// are used up, then to give Resized.
	Resize
	// Changed tells that the peer's characteristics did: what roles of the
	// reverse direction were told of them may hold no more.
	Changed
	// Disconnect asks to end the connection in order, after everything before.
	Disconnect
	// Fail asks to end the connection because of Err.
	Fail
)

// Action is one thing to do. Which fields are valid depends on Kind.
type Action struct {
	Kind Kind
	Recv uint32 // Repost, FreeReceive: as given with the message
	XID  uint32 // SendDone
	N    int    // PostReceives, Resize
	Call *Call
	Out  *Outgoing
	Body []byte
	Err  error

	Exposure *Exposure
	Reading  *Reading
}
