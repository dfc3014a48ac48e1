package connector

import (
	"context"
	"log/slog"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

const (
	// probeCredits keeps the registered memory of a probe's connection small.
	probeCredits = 2
	// probeVersion is the version of NFS in a probe's call.
	probeVersion = 3
)

// Probe makes a NULL call to the target, on its own connection, which no counter shows. Any
// answer counts as success, even that the target does not have the program. connected reports
// whether there was a connection.
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
	if err := client.Call(ctx, &rpcrdma.Call{Program: nfsProgram, Version: probeVersion}); !oncrpc.Answered(err) {
		return true, err
	}
	return true, nil
}
