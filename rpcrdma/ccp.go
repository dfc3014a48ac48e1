package rpcrdma

import (
	"context"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
)

// configure speaks the Connection Configuration Protocol on a connection that
// is new, if the settings want it. What the peer told at connect stays the
// bound of what it tells now. When it fails, the connection is closed.
func (c *Client) configure(ctx context.Context, req *transport.Requester, s *Settings, peer wire.PrivateData, said bool) error {
	if !s.Extensions.Has(ExtCCP) {
		return nil
	}
	most := uint32(conn.InlineMax)
	if said {
		most = peer.ReceiveSize
	}
	err := req.Configure(ctx, most, uint32(readsIn(c.dev)))
	if err != nil {
		req.Close()
	}
	return err
}
