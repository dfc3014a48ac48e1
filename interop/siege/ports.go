package siege

import (
	"context"
	"net"
)

var portAttacks = []Attack{
	{Name: "descriptors", Does: "600 connections to each of rdmad's four ports that say nothing, by another local user; rdmad may have 1,024 descriptors",
		Files: 1024, Root: true, run: asNobody(keep(4*600, toPorts, hold))},
}

func toPorts(ctx context.Context, s *slot) (*net.TCPConn, error) {
	ports := [4]string{s.target.RDMA, s.target.TCP, s.target.Control, s.target.Metrics}
	return dial(ctx, fromOne, ports[s.i%len(ports)])
}
