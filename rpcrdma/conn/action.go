package conn

// Kind says what an Action asks for.
type Kind uint8

const (
	// Repost: the receive Recv is free; post it again.
	Repost Kind = iota + 1
	// FreeReceive: the receive Recv is free and no longer needed; give its
	// memory back.
	FreeReceive
	// PostReceives: post N receives more, then give Posted.
	PostReceives
	// Fetch (responder): get memory for each of Call.Reads.Chunks, post the
	// RDMA Reads in Call.Fetches into it, then give Fetched.
	Fetch
	// Deliver (responder): Call.RPC is a whole call; run its service, then
	// give Reply.
	Deliver
	// Send (responder): post the RDMA Writes and the Send that Call.Answer
	// describes, then give Sent.
	Send
	// Ready (requester): Out may go now; give Launch.
	Ready
	// Fence (requester): invalidate Out's windows that are not Revoked, then
	// give Fenced.
	Fence
	// Complete (requester): Out has come to its end, as Out.Err says.
	Complete
	// Take (requester): copy Body, the reply's stream that came inline, for
	// Out; it is valid until the next action.
	Take
	// Disconnect: end the connection in order, after everything before.
	Disconnect
	// Fail: end the connection because of Err.
	Fail
)

// Action is one thing to do. Which fields are valid depends on Kind.
type Action struct {
	Kind Kind
	Recv uint32 // Repost, FreeReceive: as given with the message
	N    int    // PostReceives
	Call *Call
	Out  *Outgoing
	Body []byte
	Err  error
}
