package forward

import (
	"context"
	"errors"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// The version of NFS in a probe's call, and the most bytes of an answer.
const (
	probeVersion  = 3
	maxProbeReply = 4 << 10
)

// Probe makes a NULL call to the upstream, on a connection of its own that no counter
// shows. Any answer is good, also that the upstream does not have the program.
// connected says whether there was a connection.
func (f *Forwarder) Probe(ctx context.Context) (connected bool, err error) {
	nc, err := f.dial(ctx, f.cfg.ReservedPort)
	if errors.As(err, new(*noPortError)) { // clients use them all, and NULL needs none
		nc, err = f.dial(ctx, false)
	}
	if err != nil {
		return false, err
	}
	c := rpctcp.NewClient(nc, rpctcp.ClientConfig{MaxCalls: 1, MaxRecord: maxProbeReply, RecordTimeout: f.cfg.DialTimeout, WriteTimeout: f.cfg.DialTimeout})
	defer c.Close()
	_, err = c.Call(ctx, nfsProgram, probeVersion, 0, nil, nil)
	if oncrpc.Answered(err) {
		return true, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errors.New("no answer in time")
	}
	return true, err
}
