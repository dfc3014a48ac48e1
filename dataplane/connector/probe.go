package connector

import (
	"context"
	"log/slog"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/offheap"
)

const (
	// probeCredits keeps the registered memory of a probe's connection small.
	probeCredits = 2
	// probeVersion is the version of NFS in a probe's call.
	probeVersion = 3
)

// Probe makes a NULL call to the target, on its own connection, which no counter shows. Any
// answer counts as success, even that the target does not have the program. connected reports
// whether there was a connection. A probe does not wait for memory of the process: the error is
// offheap.ErrLimit then.
func (c *Connector) Probe(ctx context.Context) (connected bool, err error) {
	s := rpcrdma.DefaultSettings()
	s.CreditsMin, s.CreditsMax, s.CreditsBackchannel = 1, probeCredits, 1
	client, err := rpcrdma.Dial(ctx, c.cfg.Provider, c.cfg.Target, rpcrdma.DialConfig{
		Settings: &s, Logger: slog.New(slog.DiscardHandler), Versions: &c.versions,
	})
	if err != nil {
		return false, err
	}
	defer client.Close()
	ended := make(chan error, 1)
	if !client.Go(&rpcrdma.Call{Program: nfsProgram, Version: probeVersion}, func(err error, _ bool) { ended <- err }) {
		return true, offheap.ErrLimit // nobody else has memory of the probe's pool
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !oncrpc.Answered(err) {
		return true, err
	}
	return true, nil
}
