package grpcapi

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// extensionService implements rdmad.v1.ExtensionService: the settings
// extensions.* under another view.
type extensionService struct {
	rdmadv1.UnimplementedExtensionServiceServer
	plane Plane
	store *desired.Store
}

const extensionPrefix = "extensions."

// ListExtensions implements rdmadv1.ExtensionServiceServer.
func (s *extensionService) ListExtensions(_ context.Context, req *rdmadv1.ListExtensionsRequest) (*rdmadv1.ListExtensionsResponse, error) {
	scope, err := settings.ParseScope(req.GetScope())
	if err != nil {
		return nil, err
	}
	view, err := s.store.Get(scope)
	if err != nil {
		return nil, err
	}
	res := &rdmadv1.ListExtensionsResponse{Revision: view.Revision}
	used := s.used(scope)
	for _, k := range live.Match("extensions").Keys() {
		name := strings.TrimPrefix(k.String(), extensionPrefix)
		res.Extensions = append(res.Extensions, &rdmadv1.Extension{
			Name:          name,
			Summary:       k.Row().Summary,
			Specification: k.Row().Spec,
			Available:     true,
			Enabled:       view.Values.On(k),
			Value:         view.Values.Format(k),
			Source:        view.Origins[k].Source,
			Connections:   used[name],
		})
	}
	slices.SortFunc(res.Extensions, func(a, b *rdmadv1.Extension) int { return strings.Compare(a.GetName(), b.GetName()) })
	return res, nil
}

// used counts the connections in a scope by the extensions in use on them.
func (s *extensionService) used(scope settings.Scope) map[string]uint32 {
	used := make(map[string]uint32)
	all := s.plane.Connections()
	for i := range all {
		if !scope.Covers(settings.Target(all[i].ConnKey)) {
			continue
		}
		for _, name := range extensions(&all[i]) {
			used[name]++
		}
	}
	return used
}

// EnableExtensions implements rdmadv1.ExtensionServiceServer.
func (s *extensionService) EnableExtensions(ctx context.Context, req *rdmadv1.EnableExtensionsRequest) (*rdmadv1.EnableExtensionsResponse, error) {
	r, err := s.turn(ctx, true, req, req.ExpectedRevision)
	return &rdmadv1.EnableExtensionsResponse{Revision: r.Revision, Effects: effects(r.Effects), ConfirmDeadline: timestamp(r.ConfirmDeadline)}, err
}

// DisableExtensions implements rdmadv1.ExtensionServiceServer.
func (s *extensionService) DisableExtensions(ctx context.Context, req *rdmadv1.DisableExtensionsRequest) (*rdmadv1.DisableExtensionsResponse, error) {
	r, err := s.turn(ctx, false, req, req.ExpectedRevision)
	return &rdmadv1.DisableExtensionsResponse{Revision: r.Revision, Effects: effects(r.Effects), ConfirmDeadline: timestamp(r.ConfirmDeadline)}, err
}

// turning is what requests to turn extensions on and off have in common.
type turning interface {
	GetNames() []string
	GetScope() string
	GetDryRun() bool
	GetConfirmWithin() *durationpb.Duration
}

// turn makes the change of settings that a request stands for.
func (s *extensionService) turn(ctx context.Context, on bool, req turning, expected *uint32) (desired.Result, error) {
	scope, err := settings.ParseScope(req.GetScope())
	if err != nil {
		return desired.Result{}, err
	}
	c := settings.Change{Scope: scope, Expected: expected}
	for _, name := range req.GetNames() {
		k, ok := live.ParseKey(extensionPrefix + name)
		if !ok {
			return desired.Result{}, invalidField("names", "there is no extension "+name)
		}
		c.Set.SetFlag(k, on)
	}
	result, err := s.store.Set(c, desired.Options{
		DryRun: req.GetDryRun(), ConfirmWithin: req.GetConfirmWithin().AsDuration(), Actor: actor(ctx),
	})
	if err == nil {
		noteChanges(ctx, &result, req.GetDryRun())
	}
	return result, err
}

// extensions lists those in force on a connection, by name.
func extensions(c *dataplane.ConnInfo) (out []string) {
	if c.Backchannel.Open {
		out = append(out, "backchannel")
	}
	if c.Configuration.Spoken {
		out = append(out, "ccp")
	}
	if c.Characteristics.Spoken {
		out = append(out, "characteristics")
	}
	if rtr := c.Characteristics.Own.RTR & c.Characteristics.Peer.RTR; rtr&rpcrdma2.RTRContinue != 0 {
		out = append(out, "continuation")
	}
	if c.Padding.Align != 0 || c.Padding.Taken {
		out = append(out, "msgp")
	}
	if c.Settings != nil && c.Settings.Extensions.Has(rpcrdma.ExtReadReplies) {
		out = append(out, "read_replies")
	}
	if b := &c.Characteristics; len(b.Own.Buffer.Groups)+len(b.Peer.Buffer.Groups) > 0 {
		out = append(out, "send_ddp")
	}
	if c.RPCVersion == 2 {
		out = append(out, "v2")
	}
	if rtr := c.Characteristics.Own.RTR & c.Characteristics.Peer.RTR; rtr&rpcrdma2.RTRRequest != 0 {
		out = append(out, "xmit")
	}
	return out
}
