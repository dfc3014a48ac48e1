package planetest

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Connectors is a manager.ConnectorAPI over a Plane: connectors exist by name,
// and nothing is bound.
type Connectors struct{ plane *Plane }

// NewConnectors has the plane's connectors.
func NewConnectors(p *Plane) *Connectors { return &Connectors{p} }

// added is what the specifications of an operator's connectors are.
func (p *Plane) added(name string) (spec manager.ConnectorSpec, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	spec, ok = p.operators[name]
	return spec, ok
}

// Connectors implements manager.ConnectorAPI.
func (c *Connectors) Connectors() []manager.ConnectorInfo {
	all := c.plane.Connectors()
	out := make([]manager.ConnectorInfo, 0, len(all))
	for _, info := range all {
		one := manager.ConnectorInfo{ConnectorInfo: info}
		stored, added := c.plane.added(info.Name)
		if added {
			one.Spec, one.Origin = stored, manager.FromOperator
		} else {
			one.Spec = manager.ConnectorSpec{
				Name: info.Name, Listen: info.Address.String(), Provider: info.Provider, Target: info.Target, Limits: spec.ConnectorLimits{Limits: info.Limits}, Access: info.Access,
			}
		}
		out = append(out, one)
	}
	return out
}

func (c *Connectors) find(name string) (manager.ConnectorInfo, error) {
	for _, one := range c.Connectors() {
		if one.Spec.Name == name {
			return one, nil
		}
	}
	return manager.ConnectorInfo{}, &manager.NotFoundError{What: "connector", Name: name}
}

// AddConnector implements manager.ConnectorAPI. The port that 0 picks is 40000.
func (c *Connectors) AddConnector(_ context.Context, want manager.ConnectorSpec) (manager.ConnectorInfo, error) {
	if _, err := c.find(want.Name); err == nil {
		return manager.ConnectorInfo{}, &manager.ExistsError{What: "connector", Name: want.Name, State: manager.StateUp}
	}
	if want.Provider != "softiwarp" {
		return manager.ConnectorInfo{}, &manager.UnknownError{What: "provider", Name: want.Provider, Known: []string{"softiwarp"}}
	}
	if host, ok := strings.CutSuffix(want.Listen, ":0"); ok {
		want.Listen = host + ":40000"
	}
	address, err := netip.ParseAddrPort(want.Listen)
	if err != nil {
		return manager.ConnectorInfo{}, &manager.InvalidError{Field: "listen", Text: spec.AddressProblem(want.Listen)}
	}
	c.plane.addConnector(want, dataplane.ConnectorInfo{
		Name: want.Name, Provider: want.Provider, Target: want.Target, Address: address, State: dataplane.StateUp, Since: Born,
		Limits: want.Limits.Limits, Access: want.Access,
	})
	return c.find(want.Name)
}

// RemoveConnector implements manager.ConnectorAPI.
func (c *Connectors) RemoveConnector(name string, _ time.Duration) (dataplane.Removed, error) {
	info, err := c.find(name)
	if err != nil {
		return dataplane.Removed{}, err
	}
	c.plane.removeConnector(name)
	return dataplane.Removed{Drained: info.Connections}, nil
}

func (p *Plane) addConnector(spec manager.ConnectorSpec, info dataplane.ConnectorInfo) {
	p.Connector(info)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.operators == nil {
		p.operators = make(map[string]manager.ConnectorSpec)
	}
	p.operators[spec.Name] = spec
	slices.SortFunc(p.connects, func(a, b dataplane.ConnectorInfo) int { return strings.Compare(a.Name, b.Name) })
}

func (p *Plane) removeConnector(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.operators, name)
	p.connects = slices.DeleteFunc(p.connects, func(c dataplane.ConnectorInfo) bool { return c.Name == name })
}
