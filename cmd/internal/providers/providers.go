// Package providers is the table of the verbs providers that are built in. It
// is the one place, besides tests, that imports them by name.
package providers

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// Default is the provider that every build has.
const Default = "softiwarp"

// Options are what providers are made with.
type Options struct {
	Logger *slog.Logger
	// Rdmacore tunes provider rdmacore, where that is in the build; its zero
	// value is the default.
	Rdmacore tuning.Settings
	// Handshakes is how many descriptors connections of provider softiwarp may
	// have that are being made or closed; 0 is any number.
	Handshakes int
}

// Around gives what is used in place of each provider, if it is set. Tests
// set it before anything runs.
var Around func(rdmacm.Provider) rdmacm.Provider

// makers are the providers of this build.
var makers = map[string]func(*Options) (rdmacm.Provider, error){
	"softiwarp": func(o *Options) (rdmacm.Provider, error) {
		return softiwarp.New(softiwarp.Config{Logger: o.Logger, Descriptors: o.Handshakes})
	},
}

// Names are those of this build, sorted.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// UnknownError is a name that this build has no provider for.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("provider %q is none of %v", e.Name, Names())
}

// Open makes the provider of a name; the caller closes it. The error is an
// *UnknownError or the provider's own, with its name.
func Open(name string, o Options) (rdmacm.Provider, error) {
	mk := makers[name]
	if mk == nil {
		return nil, &UnknownError{Name: name}
	}
	p, err := mk(&o)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", name, err)
	}
	if Around != nil {
		p = Around(p)
	}
	return p, nil
}

// Set are providers in use, by name. The zero Set is not usable; make one.
// Its methods are for one goroutine at a time.
type Set map[string]rdmacm.Provider

// Open gives the provider of a name, made at first use. It is the set's.
func (s Set) Open(name string, o Options) (rdmacm.Provider, error) {
	if p := s[name]; p != nil {
		return p, nil
	}
	o.Logger = o.Logger.With("provider", name)
	p, err := Open(name, o)
	if err != nil {
		return nil, err
	}
	s[name] = p
	return p, nil
}

// Close closes them all and logs which could not be.
func (s Set) Close(log *slog.Logger) {
	for name, p := range s {
		if err := p.Close(); err != nil {
			log.Warn("provider not closed", "provider", name, "error", err)
		}
		delete(s, name)
	}
}

// Probe makes the MPA exchange of provider softiwarp on conn, which stays the
// caller's.
func Probe(ctx context.Context, conn *net.TCPConn, param rdmacm.ConnParam) (*softiwarp.Handshake, error) {
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Probe(ctx, conn, param)
}
