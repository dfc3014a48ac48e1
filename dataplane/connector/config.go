package connector

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Default limits. The other defaults are those of spec.Connector.
const (
	DefaultRecordTimeout = 30 * time.Second
	DefaultWriteTimeout  = 30 * time.Second
	DefaultClientMemory  = 160 << 20
)

// MaxRecord is the largest call over TCP, in bytes. It is what RPC-over-RDMA can carry.
const MaxRecord = rpcrdma.MaxMessage

// maxRefused is the largest call, in bytes, that is read to its end and answered with an
// error. For a longer call the client is disconnected.
const maxRefused = 256 << 20

// MinMemory is the least registered memory of a client, in bytes. It is more than twice what
// one call may need.
const MinMemory = 16 << 20

const _ = uint(MinMemory - 2*mostOfCall)

// Config configures a Connector. Zero values mean the defaults.
type Config struct {
	// Name is unique among connectors and listeners. Settings refer to it.
	Name string
	// Listen is the TCP address, host:port. With port 0 the system chooses the port.
	Listen   string
	Provider rdmacm.Provider
	// Target is host:port of the RPC-over-RDMA server.
	Target string
	// Dataplane is the data plane that lists the connector's connections.
	Dataplane *dataplane.Dataplane
	// Bindings say which data is DDP-eligible. With nil, none is.
	Bindings *ulb.Registry
	Logger   *slog.Logger
	// Limits and Access apply to TCP clients. Limits.Handshakes bounds the connections to
	// the target that are being made.
	Limits dataplane.Limits
	Access dataplane.Access
	// DialTimeout is how long the connection to the target may take to come up.
	DialTimeout time.Duration
	// MaxCalls bounds a client's calls that are in flight or whose replies are being sent.
	// credits.max bounds them too. At the bound, the client is not read from.
	MaxCalls int
	// MaxReply is the largest reply, in bytes, for which memory is provided if the binding
	// does not know the size; at most MaxRecord.
	MaxReply int
	// ClientMemory bounds the registered memory of a client. Memory bounds the memory of
	// the calls of all clients together. Both are in bytes.
	ClientMemory, Memory int64
	// RecordTimeout is how far a client may fall behind rpctcp.Floor while it sends a
	// call.
	RecordTimeout time.Duration
	// WriteTimeout is how far a client may fall behind while it reads its replies. It must
	// read at rpctcp.Floor, or at the rate that reads all of them in that time, whichever
	// is higher.
	WriteTimeout time.Duration
	// CallbackTimeout is how long a client may take to answer a call of the target.
	CallbackTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Bindings == nil {
		c.Bindings = ulb.NewRegistry()
	}
	def := spec.Filled(spec.Connector{})
	c.DialTimeout = cmp.Or(c.DialTimeout, def.DialTimeout)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, DefaultRecordTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.CallbackTimeout = cmp.Or(c.CallbackTimeout, def.CallbackTimeout)
	c.MaxCalls = cmp.Or(c.MaxCalls, def.MaxCalls)
	c.MaxReply = cmp.Or(c.MaxReply, int(def.MaxReply))
	c.ClientMemory = cmp.Or(c.ClientMemory, DefaultClientMemory)
	c.Memory = cmp.Or(c.Memory, int64(def.Limits.Memory))
	return c
}

// check returns an error for an invalid value. Defaults are filled in before.
func (c *Config) check() error {
	switch {
	case c.MaxCalls < 0:
		return fmt.Errorf("%d calls of a client", c.MaxCalls)
	case c.MaxReply < 0 || c.MaxReply > MaxRecord:
		return fmt.Errorf("largest reply: %d is out of range 0..%d", c.MaxReply, MaxRecord)
	case c.ClientMemory < MinMemory || c.Memory < MinMemory:
		return fmt.Errorf("memory: %d and %d bytes, less than %d", c.ClientMemory, c.Memory, MinMemory)
	}
	return nil
}
