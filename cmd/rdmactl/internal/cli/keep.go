package cli

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// keep runs read, which reads a stream to its end, again whenever rdmad has gone away
// from a stream that had begun. It says since when rdmactl sees nothing, and when it
// sees again. read calls begun as soon as rdmad answers.
func (a *app) keep(ctx context.Context, read func(conn *grpc.ClientConn, begun func()) error) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	var blind time.Time // since when rdmactl sees nothing
	known := false
	begun := func() {
		known = true
		if !blind.IsZero() {
			fmt.Fprintf(a.stderr, "rdmactl: rdmad at %s is back: nothing was seen from %s to %s\n", a.addr, blind.Format(time.DateTime), time.Now().Format(time.DateTime))
			blind = time.Time{}
		}
	}
	for {
		err := read(conn, begun)
		if !known || !wentAway(err) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err() // interrupted as rdmad went away
		}
		if blind.IsZero() {
			blind = lost(err, time.Now())
			fmt.Fprintf(a.stderr, "rdmactl: %s: trying again until you interrupt\n", terminal.OneLine(a.explain(err)))
		}
		if !pause(ctx, a.retry) {
			return ctx.Err()
		}
		conn.ResetConnectBackoff()
	}
}

// lost is since when a stream that has ended now saw nothing.
func lost(err error, now time.Time) time.Time {
	if vanished(status.Convert(err).Message()) {
		return now.Add(-quietTime - pingTime)
	}
	return now
}

// wentAway says whether a stream ended because rdmad did.
func wentAway(err error) bool {
	return status.Code(err) == codes.Unavailable
}
