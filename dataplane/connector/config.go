package connector

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Limits in force when Config leaves them 0.
const (
	DefaultDialTimeout     = 10 * time.Second
	DefaultRecordTimeout   = 30 * time.Second
	DefaultWriteTimeout    = 30 * time.Second
	DefaultCallbackTimeout = 30 * time.Second
	DefaultMaxCalls        = 256
	DefaultMaxReply        = 1 << 20
	DefaultClientMemory    = 160 << 20
	DefaultMemory          = 512 << 20
)

// MaxRecord is the most bytes of a call over TCP: what RPC-over-RDMA carries.
const MaxRecord = rpcrdma.MaxMessage

// maxRefused is the most bytes of a call that is read to its end to be refused
// with an answer. Over that, the client is disconnected.
const maxRefused = 256 << 20

// MinMemory is the least registered memory of a client, in bytes: more than
// twice what one call may take.
const MinMemory = 16 << 20

const _ = uint(MinMemory - 2*mostOfCall)

// Config is what a Connector is made with. Zero values give the defaults.
type Config struct {
	// Name is unique among connectors and listeners; settings refer to it.
	Name string
	// Listen is the TCP address, host:port; port 0 picks one.
	Listen   string
	Provider rdmacm.Provider
	// Target is host:port of the RPC-over-RDMA server.
	Target string
	// Dataplane has the connector's connections among its own.
	Dataplane *dataplane.Dataplane
	// Bindings say what is DDP-eligible; nil is nothing.
	Bindings *ulb.Registry
	Logger   *slog.Logger
	// Limits and Access are about TCP clients; handshakes are connections to
	// the target being made.
	Limits dataplane.Limits
	Access dataplane.Access
	// DialTimeout is how long the target has to come up for a client.
	DialTimeout time.Duration
	// MaxCalls bounds the calls of a client that are in flight or whose replies
	// are being sent, within credits.max. Over it, the client is not read from.
	MaxCalls int
	// MaxReply is the largest reply, in bytes, that is provided for where the
	// binding can't tell; at most MaxRecord.
	MaxReply int
	// ClientMemory bounds the registered memory of a client, Memory what the
	// calls of all clients hold together, in bytes.
	ClientMemory, Memory int64
	// RecordTimeout is how far a client may be behind rpctcp.Floor with sending a
	// call that it has begun.
	RecordTimeout time.Duration
	// WriteTimeout is how far a client may be behind with reading its replies:
	// behind rpctcp.Floor, or behind the rate at which it reads all of them in that
	// time, whichever is higher.
	WriteTimeout time.Duration
	// CallbackTimeout is how long a client has to answer a call of the target.
	CallbackTimeout time.Duration
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Bindings == nil {
		c.Bindings = ulb.NewRegistry()
	}
	setDefault(&c.DialTimeout, DefaultDialTimeout)
	setDefault(&c.RecordTimeout, DefaultRecordTimeout)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	setDefault(&c.CallbackTimeout, DefaultCallbackTimeout)
	setDefault(&c.MaxCalls, DefaultMaxCalls)
	setDefault(&c.MaxReply, DefaultMaxReply)
	setDefault(&c.ClientMemory, DefaultClientMemory)
	setDefault(&c.Memory, DefaultMemory)
	return c
}

// check finds what can't be taken; defaults are filled in.
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

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}
