// Package fleetproto encodes a fleet's policies and nodes as the API's messages and decodes
// them. Messages come from clients and from etcd, to which others can write. So decoding checks
// them.
package fleetproto

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/settingsproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Policy decodes a policy. It returns a *live.InvalidError for one that breaks a rule.
func Policy(m *rdmadv1.FleetPolicy) (*fleet.Policy, error) {
	p := &fleet.Policy{Name: m.GetName(), Priority: m.GetPriority(), Settings: make(map[settings.Scope]live.Values)}
	for i, text := range m.GetSelector() {
		t, err := fleet.ParseTerm(text)
		if err != nil {
			return nil, live.Invalid(fmt.Sprintf("selector[%d]", i), "%v", err)
		}
		p.Selector = append(p.Selector, t)
	}
	for i, one := range m.GetScopes() {
		scope, err := settings.ParseScope(one.GetScope())
		if err != nil {
			return nil, err
		}
		if _, twice := p.Settings[scope]; twice {
			return nil, live.Invalid(fmt.Sprintf("scopes[%d]", i), "%s is given twice", scope)
		}
		if v := settingsproto.Values(one.GetSettings()); v.Keys() != 0 {
			p.Settings[scope] = v
		}
	}
	return p, p.Check()
}

// Revision decodes a version of a policy.
func Revision(m *rdmadv1.FleetPolicy) (*fleet.Revision, error) {
	p, err := Policy(m)
	if err != nil {
		return nil, err
	}
	r := &fleet.Revision{Policy: *p, Revision: m.GetRevision(), Author: m.GetAuthor(), Comment: m.GetComment(), Time: m.GetTime().AsTime()}
	return r, r.Check()
}

// PolicyMessage encodes a policy.
func PolicyMessage(p *fleet.Policy) *rdmadv1.FleetPolicy {
	m := &rdmadv1.FleetPolicy{Name: p.Name, Selector: p.Selector.Texts(), Priority: p.Priority}
	for _, scope := range p.Scopes() {
		v := p.Settings[scope]
		m.Scopes = append(m.Scopes, &rdmadv1.ScopeSettings{Scope: scope.String(), Settings: settingsproto.Message(&v)})
	}
	return m
}

// RevisionMessage encodes a version of a policy.
func RevisionMessage(r *fleet.Revision) *rdmadv1.FleetPolicy {
	m := PolicyMessage(&r.Policy)
	m.Revision, m.Author, m.Comment, m.Time = r.Revision, r.Author, r.Comment, Stamp(r.Time)
	return m
}

// Stamp is nil for the zero time.
func Stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
