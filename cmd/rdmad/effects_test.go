package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// operator is a client of a rdmad's control plane.
type operator struct {
	t           testing.TB
	settings    rdmadv1.SettingsServiceClient
	connections rdmadv1.ConnectionServiceClient
	diagnostics rdmadv1.DiagnosticsServiceClient
	process     rdmadv1.ProcessServiceClient
}

func (r *rig) operator(p *process) *operator {
	r.t.Helper()
	conn := have(grpc.NewClient(p.addresses["control"], grpc.WithTransportCredentials(insecure.NewCredentials())))(r.t)
	r.t.Cleanup(func() { conn.Close() })
	return &operator{
		t: r.t, settings: rdmadv1.NewSettingsServiceClient(conn),
		connections: rdmadv1.NewConnectionServiceClient(conn), diagnostics: rdmadv1.NewDiagnosticsServiceClient(conn),
		process: rdmadv1.NewProcessServiceClient(conn),
	}
}

// set changes settings for all connections and returns the effect on the only one that is up.
func (o *operator) set(s *rdmadv1.Settings) *rdmadv1.Effect {
	o.t.Helper()
	o.connection()
	res, err := o.settings.SetSettings(o.t.Context(), &rdmadv1.SetSettingsRequest{Settings: s})
	if err != nil || len(res.GetEffects()) != 1 {
		o.t.Fatalf("setting %v: %v, %v", s, res, err)
	}
	return res.GetEffects()[0]
}

// apply is set for settings that apply at once.
func (o *operator) apply(s *rdmadv1.Settings) {
	o.t.Helper()
	if e := o.set(s); e.GetOutcome() != rdmadv1.Effect_APPLIED {
		o.t.Errorf("setting %v: %v", s, e)
	}
}

// connection returns the only connection that is up.
func (o *operator) connection() *rdmadv1.Connection {
	o.t.Helper()
	return o.await(func(all []*rdmadv1.Connection) *rdmadv1.Connection {
		if len(all) != 1 {
			return nil
		}
		return all[0]
	})
}

// await waits for a connection in the list of those that are up. Without an answer, a client
// notices its connection, and its end, a moment before rdmad does.
func (o *operator) await(choose func([]*rdmadv1.Connection) *rdmadv1.Connection) *rdmadv1.Connection {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), startTimeout)
	defer cancel()
	changes, err := o.connections.WatchConnections(ctx, &rdmadv1.WatchConnectionsRequest{})
	var all *rdmadv1.ListConnectionsResponse
	for err == nil {
		if _, err = changes.Recv(); err != nil { // the first are of those that are up
			break
		}
		if all, err = o.connections.ListConnections(ctx, &rdmadv1.ListConnectionsRequest{}); err != nil {
			break
		}
		if c := choose(all.GetConnections()); c != nil {
			return c
		}
	}
	o.t.Fatalf("%v, connections: %v", err, all)
	return nil
}

// wireView shows what goes over the connections, in order.
type wireView struct {
	t      testing.TB
	stream grpc.ServerStreamingClient[rdmadv1.TraceResponse]
}

// wire observes everything that happens after it returns.
func (o *operator) wire() *wireView {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	o.t.Cleanup(cancel)
	stream, err := o.diagnostics.Trace(ctx, &rdmadv1.TraceRequest{})
	if err == nil {
		_, err = stream.Header() // it is being looked at
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return &wireView{o.t, stream}
}

// next is the next thing that happened.
func (w *wireView) next() *rdmadv1.TraceResponse {
	w.t.Helper()
	e := have(w.stream.Recv())(w.t)
	if e.GetDropped() > 0 || e.GetMalformed() != "" {
		w.t.Fatalf("%v", e)
	}
	return e
}

// reply skips to the next reply and returns what rdmad did for it since the call, for example
// "WRITE 3000, SEND".
func (w *wireView) reply() (shape string, last *rdmadv1.TraceResponse) {
	w.t.Helper()
	var did []string
	for {
		e := w.next()
		switch e.GetOperation() {
		case rdmadv1.TraceResponse_RDMA_WRITE:
			did = append(did, fmt.Sprintf("WRITE %d", e.GetLength()))
		case rdmadv1.TraceResponse_RDMA_READ:
			did = append(did, fmt.Sprintf("READ %d", e.GetLength()))
		default:
			if e.GetDirection() == rdmadv1.TraceResponse_OUT {
				return strings.Join(append(did, e.GetOperation().String()), ", "), e
			}
		}
	}
}

// dialWith connects with settings of its own.
func (r *rig) dialWith(address string, change func(*rpcrdma.Settings), reconnect bool) *rpcrdma.Client {
	r.t.Helper()
	s := rpcrdma.DefaultSettings()
	change(&s)
	cfg := rpcrdma.DialConfig{Settings: &s, MemoryLimit: 16 << 20}
	if reconnect {
		cfg.Reconnect = &rpcrdma.Reconnect{}
	}
	c := have(rpcrdma.Dial(r.t.Context(), r.provider, address, cfg))(r.t)
	r.t.Cleanup(func() { c.Close() })
	return c
}

// reading is an NFS client with a file of one block.
type reading struct {
	nfstest.Files
	t    *testing.T
	file []byte
	want []byte
}

func newReading(t *testing.T, c *rpcrdma.Client, size int) *reading {
	t.Helper()
	r := &reading{Files: nfstest.FilesOver(c, 0, 0), t: t, want: block(7)[:size]}
	root, err := r.Mount(t.Context(), "/export")
	if err == nil {
		r.file, err = r.Create(t.Context(), root, "file")
	}
	if err == nil {
		err = r.Write(t.Context(), r.file, 0, r.want, nfstest.FileSync)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read reads the file and checks it.
func (r *reading) read() {
	r.t.Helper()
	got, err := r.Read(r.t.Context(), r.file, 0, blockSize)
	if err != nil || !bytes.Equal(got.Data, r.want) {
		r.t.Fatalf("read %d bytes, %v", len(got.Data), err)
	}
}

// The first READ after the answer to a change goes the new way.
func TestReadsMoveBetweenInlineAndChunks(t *testing.T) {
	const size = 3000
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	c := newReading(t, r.dial(p.addresses["nfs"]), size) // it asks for more than fits inline: there is a chunk
	w := o.wire()
	written := fmt.Sprintf("WRITE %d, ", size)
	for _, step := range []struct {
		set *rdmadv1.Settings
		did string
	}{
		{sendMax(4096), ""},
		{sendMax(1024), written},
		{sendMax(4096), ""},
		{sendMax(size), written}, // the header doesn't fit beside it
		{sendMax(4096), ""},
		{minChunk(size), written},
		{minChunk(size + 1), ""},
		{minChunk(0), written},
		{minChunk(4096), ""},
	} {
		o.apply(step.set)
		c.read()
		if did, _ := w.reply(); strings.Replace(did, "SEND_WITH_INVALIDATE", "SEND", 1) != step.did+"SEND" {
			t.Errorf("after %v rdmad did %s, want %sSEND", step.set, did, step.did)
		}
	}
}

// The first reply after the answer invalidates, or leaves it to the client.
func TestInvalidationIsUsedAtOnce(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	rpc := r.dial(p.addresses["nfs"])
	c := newReading(t, rpc, 4000)
	w := o.wire()
	for i := range 6 {
		use := i%2 == 1
		o.apply(&rdmadv1.Settings{RemoteInvalidation: &rdmadv1.RemoteInvalidationSettings{Use: &use}})
		before := rpc.Stats()
		c.read()
		after := rpc.Stats()
		_, e := w.reply()
		if got := e.GetOperation() == rdmadv1.TraceResponse_SEND_WITH_INVALIDATE; got != use {
			t.Errorf("with use %t the reply is a %v", use, e.GetOperation())
		}
		if use {
			if writes := e.GetHeader().GetWrites(); len(writes) != 1 || writes[0].GetSegments()[0].GetHandle() != e.GetRkey() {
				t.Errorf("tag %x is invalidated in %v", e.GetRkey(), e.GetHeader())
			}
		}
		remote, local := after.RemoteInvalidations-before.RemoteInvalidations, after.LocalInvalidations-before.LocalInvalidations
		if use && (remote != 1 || local != 0) || !use && (remote != 0 || local != 1) {
			t.Errorf("with use %t the client counts %d tags invalidated for it and %d by itself", use, remote, local)
		}
	}
}
