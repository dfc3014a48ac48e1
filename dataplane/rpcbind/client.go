package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// The protocol (RFC 1833 §2.1). The parts used here are the same in versions 3 and 4.
const (
	program   = 100000
	version3  = 3
	version4  = 4
	procSet   = 1
	procUnset = 2
	procDump  = 4
)

// Limits of calls to rpcbind.
const (
	// dialTimeout is for one endpoint, stallTimeout for the rest of a record that has
	// begun.
	dialTimeout  = 2 * time.Second
	stallTimeout = 5 * time.Second
	// maxRecord is room for ten thousand mappings, in bytes.
	maxRecord = 1 << 20
)

// Endpoint is where rpcbind listens, as for net.Dial.
type Endpoint struct{ Network, Address string }

func (e Endpoint) String() string { return e.Address }

// DefaultEndpoints returns the endpoints to try, in order. On the socket rpcbind knows the
// caller's user. Over TCP some rpcbinds accept no registrations (rpcbind(8), -i), and
// others let every local user remove registrations.
func DefaultEndpoints() []Endpoint {
	return []Endpoint{{"unix", "/run/rpcbind.sock"}, {"tcp", "127.0.0.1:111"}}
}

// dialFunc is net.Dialer.DialContext.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// client is one connection to rpcbind, for one goroutine.
type client struct {
	rpc     *rpctcp.Client
	at      Endpoint
	version uint32
}

// connect connects to the first endpoint that accepts a connection. The error is an
// *UnreachableError.
func connect(ctx context.Context, dial dialFunc, endpoints []Endpoint) (*client, error) {
	var failed []error
	for _, at := range endpoints {
		nc, err := dialOne(ctx, dial, at)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		rpc := rpctcp.NewClient(nc, rpctcp.ClientConfig{
			MaxCalls: 1, MaxRecord: maxRecord, RecordTimeout: stallTimeout, WriteTimeout: stallTimeout,
		})
		return &client{rpc: rpc, at: at, version: version4}, nil
	}
	return nil, &UnreachableError{Causes: failed}
}

func dialOne(ctx context.Context, dial dialFunc, at Endpoint) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return dial(ctx, at.Network, at.Address)
}

func (c *client) close() { c.rpc.Close() }

// set registers m. It returns false if rpcbind refuses.
func (c *client) set(ctx context.Context, m *mapping) (bool, error) {
	return c.change(ctx, "SET", procSet, m)
}

// unset removes the mapping of m's program, version and netid, with any address. It returns
// false if it belongs to another user.
func (c *client) unset(ctx context.Context, m *mapping) (bool, error) {
	return c.change(ctx, "UNSET", procUnset, m)
}

func (c *client) change(ctx context.Context, op string, proc uint32, m *mapping) (ok bool, err error) {
	results, err := c.call(ctx, proc, appendMapping(nil, m))
	if err == nil {
		ok, err = decodeBool(results)
	}
	if err != nil {
		return false, &CallError{Op: op, At: c.at, Err: err}
	}
	return ok, nil
}

// dump lists all registrations.
func (c *client) dump(ctx context.Context) (list []mapping, err error) {
	results, err := c.call(ctx, procDump, nil)
	if err == nil {
		list, err = decodeList(results)
	}
	if err != nil {
		return nil, &CallError{Op: "DUMP", At: c.at, Err: err}
	}
	return list, nil
}

// call makes a call, in version 3 once it is known that there is no version 4.
func (c *client) call(ctx context.Context, proc uint32, args []byte) ([]byte, error) {
	results, err := c.rpc.Call(ctx, program, c.version, proc, args, nil)
	if c.version == version4 && speaksThree(err) {
		c.version = version3
		results, err = c.rpc.Call(ctx, program, c.version, proc, args, nil)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("no answer in time: %w", err)
	}
	return results, err
}

// speaksThree reports whether a call of version 4 failed because of its version, and
// version 3 would work.
func speaksThree(err error) bool {
	e, ok := errors.AsType[*oncrpc.AcceptError](err)
	return ok && e.Stat == oncrpc.ProgMismatch && e.Low <= version3 && version3 <= e.High
}
