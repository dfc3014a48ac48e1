// Package config loads rdmad's configuration: defaults, then a file in YAML,
// TOML or JSON, then RDMAD_ environment variables, then flags. It is checked
// whole before anything is started. Every mistake, an unknown key as much as a
// value out of range, is an *Error with its place; Load gives all of them at
// once.
//
// Keys, kinds, defaults and ranges are the tags of the types here and in
// package spec, which explains them.
//
// Relative paths are taken from the working directory.
package config

import (
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// Config is a checked configuration.
type Config struct {
	// File is where it was read from; "" without one.
	File string `mapstructure:"-"`
	// Text is what stood in it when Load read it.
	Text []byte `mapstructure:"-"`

	Control Control `mapstructure:"control"`
	Metrics Metrics `mapstructure:"metrics"`
	State   State   `mapstructure:"state"`

	spec.All `mapstructure:",squash"`

	Providers Providers `mapstructure:"providers"`
	// Limits bound the connections of all listeners together, and the memory of
	// the process.
	Limits   Limits   `mapstructure:"limits"`
	Settings Settings `mapstructure:"settings"`

	// SettingLines are the lines of File that give the live settings, by
	// dotted name.
	SettingLines map[string]int `mapstructure:"-"`
	// Origins say where each value comes from that is not a default, by its
	// dotted name, such as listeners[0].address.
	Origins Origins `mapstructure:"-"`
	// Unknown are RDMAD_ environment variables that name no key.
	Unknown []string `mapstructure:"-"`
}

// Metrics is the HTTP server of /metrics and /healthz.
type Metrics struct {
	Listen string `mapstructure:"listen" default:"127.0.0.1:20051" is:"optional address" doc:"HOST:PORT of /metrics and /healthz; empty for none"`
}

// State is what survives a restart.
type State struct {
	// Path is a directory, made when missing and used by one rdmad at a
	// time. It holds a folder for each nfs service (file handle keys).
	Path string `mapstructure:"path" default:"./rdmad.state" doc:"directory of what survives a restart; one rdmad uses it at a time"`
}

// Providers are what providers are made with.
type Providers struct {
	Rdmacore tuning.Settings `mapstructure:"rdmacore"`
}
