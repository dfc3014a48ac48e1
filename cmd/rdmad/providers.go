package main

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// makers are the providers of this build.
var makers = map[string]func(*slog.Logger) (rdmacm.Provider, error){
	"softiwarp": func(log *slog.Logger) (rdmacm.Provider, error) {
		return softiwarp.New(softiwarp.Config{Logger: log})
	},
}

func providerNames() []string { return slices.Sorted(maps.Keys(makers)) }

// providers are those in use, by name.
type providers map[string]rdmacm.Provider

// open gives the provider of a name, made at first use. The name was checked
// with the configuration.
func (p providers) open(name string, log *slog.Logger) (rdmacm.Provider, error) {
	if made := p[name]; made != nil {
		return made, nil
	}
	made, err := makers[name](log.With("provider", name))
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", name, err)
	}
	p[name] = made
	return made, nil
}

func (p providers) close(log *slog.Logger) {
	for name, made := range p {
		if err := made.Close(); err != nil {
			log.Warn("provider not closed", "provider", name, "error", err)
		}
	}
}
