package connector

import (
	"cmp"
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
	// Connector needs a name, and the addresses to listen at and of the target. Limits and
	// Access apply to TCP clients. Limits.Handshakes bounds the connections to the target that
	// are being made. At MaxCalls calls that are in flight or whose replies are being sent, a
	// client is not read from. Package spec checks the ranges.
	spec.Connector
	// Provider is the one with the name in Connector.
	Provider rdmacm.Provider
	// Dataplane is the data plane that lists the connector's connections.
	Dataplane *dataplane.Dataplane
	// Bindings say which data is DDP-eligible. With nil, none is.
	Bindings *ulb.Registry
	Logger   *slog.Logger
	// ClientMemory bounds the registered memory of a client, in bytes; at least MinMemory.
	ClientMemory int64
	// RecordTimeout is how far a client may fall behind rpctcp.Floor while it sends a
	// call.
	RecordTimeout time.Duration
	// WriteTimeout is how far a client may fall behind while it reads its replies. It must
	// read at rpctcp.Floor, or at the rate that reads all of them in that time, whichever
	// is higher.
	WriteTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Bindings == nil {
		c.Bindings = ulb.NewRegistry()
	}
	c.Connector = spec.Filled(c.Connector)
	c.RecordTimeout = cmp.Or(c.RecordTimeout, DefaultRecordTimeout)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, DefaultWriteTimeout)
	c.ClientMemory = cmp.Or(c.ClientMemory, DefaultClientMemory)
	return c
}
