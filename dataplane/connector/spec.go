package connector

import (
	"slices"

	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Spec is a connector as the configuration or an operator wants it.
type Spec = spec.Connector

// check checks what an operator wants.
func check(c *Spec, providers []string) error {
	if err := spec.Check(c); err != nil {
		return err
	}
	if !slices.Contains(providers, c.Provider) {
		return &manager.UnknownError{What: "provider", Name: c.Provider, Known: providers}
	}
	return nil
}

// sameBinding says whether a connector can become another with clients.
func sameBinding(a, b Spec) bool {
	a.Limits.Limits, a.Access = b.Limits.Limits, b.Access
	return same(a, b)
}
