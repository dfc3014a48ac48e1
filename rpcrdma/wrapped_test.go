package rpcrdma_test

import (
	"context"

	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// wrappedProvider puts something of a test's around the connections of a
// provider: wrap is given each, passive those that a listener accepts.
type wrappedProvider struct {
	rdmacm.Provider
	wrap func(id rdmacm.ID, passive bool) rdmacm.ID
}

func (p *wrappedProvider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	id, err := p.Provider.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	return p.wrap(id, false), nil
}

func (p *wrappedProvider) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	l, err := p.Provider.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	return wrappedListener{l, p}, nil
}

type wrappedListener struct {
	rdmacm.Listener
	p *wrappedProvider
}

func (l wrappedListener) GetRequest(ctx context.Context) (rdmacm.ID, error) {
	id, err := l.Listener.GetRequest(ctx)
	if err != nil {
		return nil, err
	}
	return l.p.wrap(id, true), nil
}
