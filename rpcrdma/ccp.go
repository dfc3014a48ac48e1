package rpcrdma

import (
	"context"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
)

// configure runs the Connection Configuration Protocol on a new connection, if the settings
// ask for it. What the peer announced at connect limits what it may announce now. If it
// fails, configure closes the connection.
func (c *Client) configure(ctx context.Context, req *transport.Requester, s *Settings, peer wire.PrivateData, said bool) error {
	if !s.Extensions.Has(ExtCCP) {
		return nil
	}
	most := uint32(settings.InlineMax)
	if said {
		most = peer.ReceiveSize
	}
	err := req.Configure(ctx, most, uint32(readsIn(c.dev)))
	if err != nil {
		req.Close()
	}
	return err
}
