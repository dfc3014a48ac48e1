package siege

import "context"

var portAttacks = []Attack{
	{Name: "descriptors", Does: "600 connections to each of rdmad's four ports that say nothing, by another local user; rdmad may have 1,024 descriptors",
		Files: 1024, Root: true, run: asNobody(descriptors)},
}

func descriptors(ctx context.Context, f *field) error {
	ports := []string{f.target.RDMA, f.target.TCP, f.target.Control, f.target.Metrics}
	return f.slots(ctx, 600*len(ports), func(ctx context.Context, s *slot) error {
		conn, err := dial(ctx, fromOne, ports[s.i%len(ports)])
		if err != nil {
			return err
		}
		return s.hold(conn)
	})
}
