// Package providers is the table of the built-in verbs providers. Except for tests, no other
// package imports them by name.
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

// Options configure providers.
type Options struct {
	Logger *slog.Logger
	// Rdmacore tunes provider rdmacore, if the build has it. The zero value means the
	// defaults.
	Rdmacore tuning.Settings
	// Handshakes is the number of descriptors for connections of provider softiwarp that
	// are being made or closed; 0 means no limit.
	Handshakes int
}

// Around returns the provider to use in place of each provider, if Around is set. Tests set it
// before anything runs.
var Around func(rdmacm.Provider) rdmacm.Provider

// maker makes a provider.
type maker struct {
	open        func(*Options) (rdmacm.Provider, error)
	descriptors int // see rdmacm.Provider
}

// makers are the providers of this build.
var makers = map[string]maker{
	softiwarp.ProviderName: {func(o *Options) (rdmacm.Provider, error) {
		return softiwarp.New(softiwarp.Config{Logger: o.Logger, Descriptors: o.Handshakes})
	}, softiwarp.Descriptors},
}

// Descriptors returns the number of file descriptors that a connection of a provider needs, or 0
// if this build has no provider of that name.
func Descriptors(name string) int { return makers[name].descriptors }

// Names returns the names of the providers in this build, sorted.
func Names() []string { return slices.Sorted(maps.Keys(makers)) }

// UnknownError means that this build has no provider of that name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("provider %q is not one of %v", e.Name, Names())
}

// Open makes the provider of a name. The caller closes it. The error is an *UnknownError or
// the provider's own, with its name.
func Open(name string, o Options) (rdmacm.Provider, error) {
	mk, ok := makers[name]
	if !ok {
		return nil, &UnknownError{Name: name}
	}
	p, err := mk.open(&o)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", name, err)
	}
	if Around != nil {
		p = Around(p)
	}
	return p, nil
}

// Set holds the providers in use, by name. Make it with make: the zero Set is not usable. Its
// methods are not safe for concurrent use.
type Set map[string]rdmacm.Provider

// Open returns the provider of a name and makes it at first use. The set owns it.
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

// Close closes all providers and logs those that could not be closed.
func (s Set) Close(log *slog.Logger) {
	for name, p := range s {
		if err := p.Close(); err != nil {
			log.Warn("provider not closed", "provider", name, "error", err)
		}
		delete(s, name)
	}
}

// Probe makes the MPA exchange of provider softiwarp on conn. The caller still owns conn.
func Probe(ctx context.Context, conn *net.TCPConn, param rdmacm.ConnParam) (*softiwarp.Handshake, error) {
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Probe(ctx, conn, param)
}
