package main

import (
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/dataplane/connector"
)

// connectorSpecs are the configuration's connectors, as a connector.Set takes
// them.
func connectorSpecs(list []config.Connector) []connector.Spec {
	out := make([]connector.Spec, len(list))
	for i, c := range list {
		out[i] = connector.Spec{
			Name: c.Name, Listen: c.Listen, Provider: c.Provider, Target: c.Target,
			DialTimeout: c.Dial, CallbackTimeout: c.Callback,
			MaxCalls: int(c.MaxCalls), MaxReply: int(c.MaxReply),
			Memory: c.Limits.Memory, Limits: c.Limits.Dataplane(), Access: c.Access,
		}
	}
	return out
}
