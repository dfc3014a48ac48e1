package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// runtimeChange is a change of an operator under traffic.
type runtimeChange struct {
	name string
	make func() error
	code codes.Code // OK for a good one
	want string     // in the error
}

// TestRuntimeChangesUnderTraffic: no change of an operator, good or bad, loses a call. A bad one
// leaves everything as it was, the connections included. After the good ones, a reload keeps
// them, and a restart too. When they are unset, everything is as in the file.
func TestRuntimeChangesUnderTraffic(t *testing.T) {
	b := startTraffic(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	defer taken.Close()
	b.must(os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600))
	b.ports["TAKEN"] = strings.TrimPrefix(taken.Addr().String(), "127.0.0.1:")
	before := b.state()
	for _, c := range b.badChanges() {
		state, up := b.state(), b.connections()
		b.flows()
		err := c.make()
		b.flows()
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), b.text(c.want)) {
			t.Errorf("%s: %v, want %s: %s", c.name, err, c.code, b.text(c.want))
		}
		if now := b.state(); !slices.Equal(now, state) {
			t.Errorf("%s: changed\n%s\nto\n%s", c.name, strings.Join(state, "\n"), strings.Join(now, "\n"))
		}
		for _, id := range up {
			if now := b.connections(); !slices.Contains(now, id) {
				t.Errorf("%s: connections %s, before %s", c.name, now, up)
			}
		}
	}
	for _, c := range b.goodChanges() {
		b.flows()
		if err := c.make(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		b.flows()
	}
	changed := withoutTimes(b.state())
	if slices.Equal(changed, withoutTimes(before)) {
		t.Errorf("nothing changed: %s", changed)
	}
	if err := b.take(busyFile); err != nil {
		t.Errorf("a reload: %v", err)
	}
	if now := withoutTimes(b.state()); !slices.Equal(now, changed) {
		t.Errorf("a reload changed\n%s\nto\n%s", strings.Join(changed, "\n"), strings.Join(now, "\n"))
	}
	if next, err := storedChanges(filepath.Join(b.dir, "state")); err != nil || len(next.Listeners) != 2 || len(next.Services) != 1 || len(next.Connectors) != 1 || len(next.Limits) != 3 {
		t.Errorf("kept for a restart: %+v, %v", next, err)
	}
	for _, c := range b.unsets() {
		b.flows()
		if err := c.make(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		b.flows()
	}
	if now := withoutTimes(b.state()); !slices.Equal(now, withoutTimes(before)) {
		t.Errorf("unset\n%s\nwhere there was\n%s", strings.Join(now, "\n"), strings.Join(before, "\n"))
	}
}

// withoutTimes is a state without the times at which things were made.
func withoutTimes(state []string) (out []string) {
	for _, line := range state {
		if at := strings.LastIndex(line, " 20"); at >= 0 && !strings.HasPrefix(line, "service") {
			line = line[:at]
		}
		out = append(out, line)
	}
	return out
}

func (b *traffic) updateListener(name string, change func(*rdmadv1.UpdateListenerRequest)) error {
	req := &rdmadv1.UpdateListenerRequest{Name: name}
	change(req)
	_, err := rdmadv1.NewListenerServiceClient(b.client).UpdateListener(b.t.Context(), req)
	return err
}

func (b *traffic) updateService(name string, change func(*rdmadv1.UpdateServiceRequest)) error {
	req := &rdmadv1.UpdateServiceRequest{Name: name}
	change(req)
	_, err := rdmadv1.NewListenerServiceClient(b.client).UpdateService(b.t.Context(), req)
	return err
}

func (b *traffic) updateConnector(name string, change func(*rdmadv1.UpdateConnectorRequest)) error {
	req := &rdmadv1.UpdateConnectorRequest{Name: name}
	change(req)
	_, err := rdmadv1.NewConnectorServiceClient(b.client).UpdateConnector(b.t.Context(), req)
	return err
}

func (b *traffic) setLimits(l *rdmadv1.Limits, unset ...string) error {
	req := &rdmadv1.SetLimitsRequest{Limits: l, Unset: unset}
	if unset == nil {
		req.UpdateMask = &fieldmaskpb.FieldMask{}
		l.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
			req.UpdateMask.Paths = append(req.UpdateMask.Paths, string(fd.Name()))
			return true
		})
	}
	_, err := rdmadv1.NewListenerServiceClient(b.client).SetLimits(b.t.Context(), req)
	return err
}

func (b *traffic) badChanges() []runtimeChange {
	at := func(address string) func() error {
		return func() error {
			return b.updateListener("steady", func(r *rdmadv1.UpdateListenerRequest) { r.Address = proto.String(b.text(address)) })
		}
	}
	service := func(change func(*rdmadv1.NfsService), paths ...string) func() error {
		return func() error {
			return b.updateService("disk", func(r *rdmadv1.UpdateServiceRequest) {
				r.Nfs, r.UpdateMask = &rdmadv1.NfsService{}, &fieldmaskpb.FieldMask{Paths: paths}
				change(r.Nfs)
			})
		}
	}
	return []runtimeChange{
		{"listener's port in use", at("127.0.0.1:TAKEN"), codes.AlreadyExists, "address 127.0.0.1:TAKEN is in use"},
		{"listener's port of another listener", at("127.0.0.1:P3"), codes.AlreadyExists, "address 127.0.0.1:P3 is in use"},
		{"an address that is not here", at("192.0.2.1:P3"), codes.FailedPrecondition, "can't listen on 192.0.2.1:P3"},
		{"no address", at("nowhere"), codes.InvalidArgument, `"nowhere" is not HOST:PORT`},
		{"no such service", func() error {
			return b.updateListener("steady", func(r *rdmadv1.UpdateListenerRequest) { r.Service = proto.String("none") })
		}, codes.NotFound, "no service none; there are: disk, test"},
		{"limits out of range, and no provider", func() error {
			return b.updateListener("steady", func(r *rdmadv1.UpdateListenerRequest) {
				r.Provider, r.Admission = proto.String("magic"), &rdmadv1.Admission{MaxConnections: 7}
			})
		}, codes.NotFound, "magic"},
		{"nothing", func() error { return b.updateListener("steady", func(*rdmadv1.UpdateListenerRequest) {}) }, codes.InvalidArgument, "nothing to change"},
		{"service's port in use", service(func(n *rdmadv1.NfsService) { n.TcpListen = b.text("127.0.0.1:TAKEN") }, "nfs.tcp_listen"), codes.AlreadyExists, "is in use"},
		{"no such directory", service(func(n *rdmadv1.NfsService) { n.Path = b.dir + "/none" }, "nfs.path"), codes.FailedPrecondition, "none"},
		{"no directory", service(func(n *rdmadv1.NfsService) { n.Path = b.dir + "/file" }, "nfs.path"), codes.FailedPrecondition, "file"},
		{"a relative path", service(func(n *rdmadv1.NfsService) { n.Path = "disk" }, "nfs.path"), codes.InvalidArgument, "must begin with /"},
		{"the path taken away", service(func(*rdmadv1.NfsService) {}, "nfs.path"), codes.InvalidArgument, "which directory is served?"},
		{"another kind's field", func() error {
			return b.updateService("test", func(r *rdmadv1.UpdateServiceRequest) {
				r.UpdateMask = &fieldmaskpb.FieldMask{Paths: []string{"nfs.path"}}
			})
		}, codes.InvalidArgument, `there is no field "nfs.path"`},
		{"connector's port in use", func() error {
			return b.updateConnector("out", func(r *rdmadv1.UpdateConnectorRequest) { r.Listen = b.text("127.0.0.1:TAKEN") })
		}, codes.AlreadyExists, "is in use"},
		{"two faults of a connector", func() error {
			return b.updateConnector("out", func(r *rdmadv1.UpdateConnectorRequest) { r.Listen, r.Target = "here", "there" })
		}, codes.InvalidArgument, `listen: "here" is not HOST:PORT; target: "there" is not HOST:PORT`},
		{"limits out of range", func() error {
			return b.setLimits(&rdmadv1.Limits{MaxConnections: 77, MaxMemory: proto.Float64(5)})
		}, codes.InvalidArgument, "limits.max_memory: 5 is out of range"},
	}
}

func (b *traffic) goodChanges() []runtimeChange {
	listener := func(name string, change func(*rdmadv1.UpdateListenerRequest)) func() error {
		return func() error { return b.updateListener(name, change) }
	}
	service := func(change func(*rdmadv1.NfsService)) func() error {
		return func() error {
			return b.updateService("disk", func(r *rdmadv1.UpdateServiceRequest) {
				r.Nfs = &rdmadv1.NfsService{}
				change(r.Nfs)
			})
		}
	}
	return []runtimeChange{
		{name: "limits and access", make: listener("steady", func(r *rdmadv1.UpdateListenerRequest) {
			r.Admission = &rdmadv1.Admission{MaxConnections: 100, Deny: []string{"192.0.2.0/24"}}
		})},
		{name: "every address in place of one", make: listener("steady", func(r *rdmadv1.UpdateListenerRequest) { r.Address = proto.String(b.text("0.0.0.0:P2")) })},
		{name: "one address in place of every", make: listener("steady", func(r *rdmadv1.UpdateListenerRequest) { r.Address = proto.String(b.text("127.0.0.1:P2")) })},
		{name: "rpcbind", make: listener("files", func(r *rdmadv1.UpdateListenerRequest) { r.Rpcbind = proto.Bool(true) })},
		{name: "a service with the same addresses", make: service(func(n *rdmadv1.NfsService) { n.ReadOnly = true })},
		{name: "another directory", make: service(func(n *rdmadv1.NfsService) { n.Path = b.dir + "/other" })},
		{name: "a connector at the same address", make: func() error {
			return b.updateConnector("out", func(r *rdmadv1.UpdateConnectorRequest) { r.MaxCalls = 100 })
		}},
		{name: "a connector's limits", make: func() error {
			return b.updateConnector("out", func(r *rdmadv1.UpdateConnectorRequest) { r.Admission = &rdmadv1.Admission{MaxConnections: 99} })
		}},
		{name: "limits of all", make: func() error {
			return b.setLimits(&rdmadv1.Limits{MaxConnections: 500, MaxMemory: proto.Float64(512 << 20), MaxTcpConnections: proto.Uint32(100)})
		}},
	}
}

func (b *traffic) unsets() []runtimeChange {
	every := []string{"*"}
	return []runtimeChange{
		{name: "unset listener steady", make: func() error {
			return b.updateListener("steady", func(r *rdmadv1.UpdateListenerRequest) { r.Unset = every })
		}},
		{name: "unset listener files", make: func() error {
			return b.updateListener("files", func(r *rdmadv1.UpdateListenerRequest) { r.Unset = []string{"rpcbind"} })
		}},
		{name: "unset service disk", make: func() error {
			return b.updateService("disk", func(r *rdmadv1.UpdateServiceRequest) { r.Unset = every })
		}},
		{name: "unset connector out", make: func() error {
			return b.updateConnector("out", func(r *rdmadv1.UpdateConnectorRequest) { r.Unset = every })
		}},
		{name: "unset limits", make: func() error { return b.setLimits(&rdmadv1.Limits{}, every...) }},
	}
}
