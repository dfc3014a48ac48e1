package controlplane_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// awaited is a log that says when a line comes.
type awaited struct {
	mu   sync.Mutex
	b    bytes.Buffer
	text string
	come chan struct{} // closed when text is there
}

func (a *awaited) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.b.Write(p)
	if a.come != nil && strings.Contains(a.b.String(), a.text) {
		close(a.come)
		a.come = nil
	}
	return len(p), nil
}

// TestStoppedReaderHarmsNobody: 64 calls are in flight all the time while a
// client that watches connections stops reading. Every call is answered, the
// client is dropped with RESOURCE_EXHAUSTED, and changes go on meanwhile. The
// first time its queue is what overflows, the second time it is a message that
// can't be sent.
func TestStoppedReaderHarmsNobody(t *testing.T) {
	for name, c := range map[string]struct {
		queue    int
		sendTime time.Duration
	}{"queue": {64, time.Hour}, "message": {1 << 20, 50 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			come := make(chan struct{})
			log := &awaited{text: "grpc.code=ResourceExhausted", come: come}
			plane := dataplane.New(dataplane.Config{})
			control, client := serve(t, controlplane.Config{
				Dataplane: plane, Listen: "127.0.0.1:0", WatchQueue: c.queue,
				Access: controlplane.Access{Rate: auth.Rate{PerSecond: 1e6, Burst: 1e6}, SendTime: c.sendTime},
				Logger: slog.New(slog.NewTextHandler(log, nil)),
			})
			plane.ApplySettings(dataplane.Update{Resolve: control.Settings.Resolve}, nil)
			stop := traffic(t, plane)
			slow := stopped(t, control.Addr())
			changes := change(t, client, come)
			answered := stop()
			t.Logf("%d calls answered, %d changes made", answered, changes)
			seen := 0
			for {
				_, err := slow.Recv()
				if err == nil {
					seen++
					continue
				}
				if st := status.Convert(err); st.Code() != codes.ResourceExhausted || !strings.Contains(st.Proto().String(), "ERROR_REASON_SLOW_READER") {
					t.Errorf("ended with %v", err)
				}
				break
			}
			if seen == 0 || seen > changes {
				t.Errorf("the reader that stopped saw %d of %d changes", seen, changes)
			}
		})
	}
}

// traffic has 64 calls in flight until the function it returns is called,
// which says how many were answered; each of them must be.
func traffic(t *testing.T, plane *dataplane.Dataplane) (stop func() int64) {
	t.Helper()
	const depth = 64
	provider := refereetest.Around(t, loopback.New(loopback.Config{}))
	listener, err := plane.PrepareListener(t.Context(), dataplane.ListenerConfig{
		Name: "echo", Provider: provider, Address: "127.0.0.1:0", Service: "test", Handler: echo.New(),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	plane.Start()
	client := have(rpcrdma.Dial(t.Context(), provider, listener.Info().Address.String(), rpcrdma.DialConfig{}))(t)
	var (
		running  sync.WaitGroup
		ending   = make(chan struct{})
		answered atomic.Int64
	)
	for i := range depth {
		running.Go(func() {
			args := xdr.AppendOpaque(nil, bytes.Repeat([]byte{byte(i)}, 100+i))
			for {
				select {
				case <-ending:
					return
				default:
				}
				call := &rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho, Args: args, MaxReply: len(args)}
				if err := client.Call(t.Context(), call); err != nil || !bytes.Equal(call.Reply, args) {
					t.Errorf("call: %v, %d bytes", err, len(call.Reply))
					return
				}
				answered.Add(1)
			}
		})
	}
	return func() int64 {
		before := answered.Load()
		for answered.Load() < before+depth && !t.Failed() { // they still are
			runtime.Gosched()
		}
		close(ending)
		running.Wait()
		client.Close()
		if err := plane.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := provider.Close(); err != nil {
			t.Error(err)
		}
		return answered.Load()
	}
}

// stopped watches connections and reads no more than the first.
func stopped(t *testing.T, address string) rdmadv1.ConnectionService_WatchConnectionsClient {
	t.Helper()
	client, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	stream := have(rdmadv1.NewConnectionServiceClient(client).WatchConnections(t.Context(), &rdmadv1.WatchConnectionsRequest{}))(t)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	return stream
}

// change changes a setting of the connection again and again until done is
// closed.
func change(t *testing.T, client grpc.ClientConnInterface, done <-chan struct{}) (changes int) {
	t.Helper()
	settings := rdmadv1.NewSettingsServiceClient(client)
	for {
		select {
		case <-done:
			return changes
		default:
		}
		size := uint32(1024 + changes%1024)
		if _, err := settings.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{
			Settings: &rdmadv1.Settings{Inline: &rdmadv1.InlineSettings{SendMax: &size}},
		}); err != nil {
			t.Fatal(err)
		}
		changes++
	}
}
