package rpcrdma

import (
	"context"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/ccp"
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
	args := ccp.Args{MaxCall: s.InlineSendMax, MaxReply: s.InlineReceiveSize, MaxReads: uint32(readsIn(c.dev))}
	err := req.Configure(ctx, args, most)
	if err != nil {
		req.Close()
	}
	return err
}
