package planetest

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
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
		spec, added := c.plane.added(info.Name)
		if added {
			one.Spec, one.Origin = spec, manager.FromOperator
		} else {
			one.Spec = manager.ConnectorSpec{
				Name: info.Name, Listen: info.Address.String(), Provider: info.Provider, Target: info.Target, Limits: info.Limits, Access: info.Access,
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
func (c *Connectors) AddConnector(_ context.Context, spec manager.ConnectorSpec) (manager.ConnectorInfo, error) {
	if _, err := c.find(spec.Name); err == nil {
		return manager.ConnectorInfo{}, &manager.ExistsError{What: "connector", Name: spec.Name, State: manager.StateUp}
	}
	if spec.Provider != "softiwarp" {
		return manager.ConnectorInfo{}, &manager.UnknownError{What: "provider", Name: spec.Provider, Known: []string{"softiwarp"}}
	}
	if host, ok := strings.CutSuffix(spec.Listen, ":0"); ok {
		spec.Listen = host + ":40000"
	}
	address, err := netip.ParseAddrPort(spec.Listen)
	if err != nil {
		return manager.ConnectorInfo{}, &manager.InvalidError{Field: "listen", Text: manager.AddressProblem(spec.Listen)}
	}
	c.plane.addConnector(spec, dataplane.ConnectorInfo{
		Name: spec.Name, Provider: spec.Provider, Target: spec.Target, Address: address, State: dataplane.StateUp, Since: Born,
		Limits: spec.Limits, Access: spec.Access,
	})
	return c.find(spec.Name)
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
