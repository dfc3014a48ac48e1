// Package config loads rdmad's configuration: YAML, checked whole before
// anything is started. Every mistake, an unknown key as much as a value out
// of range, is one *Error of one line with file, line and key.
//
// Relative paths are taken from the working directory.
package config

import (
	"fmt"

	"github.com/rdmad/rdmad/dataplane"
)

// Config is a checked configuration.
type Config struct {
	// File is where it was read from; "" for the defaults.
	File string `mapstructure:"-"`
	// Text is what stood in it when Load read it.
	Text []byte `mapstructure:"-"`

	Control    Control     `mapstructure:"control"`
	Metrics    Metrics     `mapstructure:"metrics"`
	State      State       `mapstructure:"state"`
	Listeners  []Listener  `mapstructure:"listeners"`
	Services   []Service   `mapstructure:"services"`
	Connectors []Connector `mapstructure:"connectors"`
	Providers  Providers   `mapstructure:"providers"`
	// Limits bound the connections of all listeners together.
	Limits   Limits   `mapstructure:"limits"`
	Settings Settings `mapstructure:"settings"`

	// SettingLines are the lines of File that give the live settings, by
	// dotted name.
	SettingLines map[string]int `mapstructure:"-"`
}

// Metrics is the HTTP server of /metrics and /healthz.
type Metrics struct {
	Listen string `mapstructure:"listen"` // host:port; "" for none
}

// State is what survives a restart.
type State struct {
	// Path is a directory, made when missing and used by one rdmad at a
	// time. It holds a folder for each nfs service (file handle keys).
	Path string `mapstructure:"path"`
}

// Listener accepts RPC-over-RDMA connections for a service.
type Listener struct {
	Name     string `mapstructure:"name"`
	Provider string `mapstructure:"provider"`
	Address  string `mapstructure:"address"`
	Service  string `mapstructure:"service"`
	// RPCBind has the service's programs registered with the machine's
	// rpcbind while it is served.
	RPCBind bool `mapstructure:"rpcbind"`
	// Limits bound the listener's connections, within those of all.
	Limits Limits `mapstructure:"limits"`
	// Allow and Deny are addresses and CIDRs. Deny wins; without an Allow
	// everybody else may connect.
	Allow []string `mapstructure:"allow"`
	Deny  []string `mapstructure:"deny"`
	// Access are the two as they were read.
	Access dataplane.Access `mapstructure:"-"`
}

// Service is what answers calls; exactly one of its kinds is set.
type Service struct {
	Name    string   `mapstructure:"name"`
	NFS     *NFS     `mapstructure:"nfs"`
	Echo    *Echo    `mapstructure:"echo"`
	Forward *Forward `mapstructure:"forward"`
}

// NFS serves a directory by NFSv3 and MOUNT.
type NFS struct {
	Path     string `mapstructure:"path"`
	ReadOnly bool   `mapstructure:"read_only"`
	// Squash says whose rights clients get when rdmad runs as root: none
	// (their own; the default), root (nobody for root), all (nobody).
	Squash string `mapstructure:"squash"`
	// AsyncMetadata answers changes of names and attributes before they are
	// on the disk.
	AsyncMetadata bool `mapstructure:"async_metadata"`
	// TCPListen serves the same over TCP; "" for not at all. Kernel clients
	// need it for MOUNT.
	TCPListen string `mapstructure:"tcp_listen"`
}

// Echo is the echo program; it has no parameters.
type Echo struct{}

// Error is a mistake in a configuration.
type Error struct {
	File string
	Line int    // 0 when no line is to blame
	Key  string // such as listeners[0].address; "" when none is to blame
	Msg  string
}

func (e *Error) Error() string {
	out := e.File
	if e.Line > 0 {
		out += fmt.Sprintf(":%d", e.Line)
	}
	if e.Key != "" {
		out += ": " + e.Key
	}
	return out + ": " + e.Msg
}
