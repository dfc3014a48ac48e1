// Package grpcapi is the gRPC server of the control plane, and the only package of the daemon
// that uses generated protobuf types. It turns requests into native values and native errors
// into statuses, and limits clients in size, number and time.
package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"buf.build/go/protovalidate"
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/loglevel"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
	"github.com/rdmad/rdmad/dataplane/descriptors"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/trace"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/inventory"
)

// Bounds on clients. A request is a few hundred bytes; the largest answer is
// the list of all connections, some 300 bytes each.
const (
	maxRequest     = 256 << 10 // bytes
	maxAnswer      = 16 << 20  // bytes
	maxHeaders     = 16 << 10  // bytes
	maxStreams     = 100       // on one client connection
	streamWorkers  = 8         // goroutines that keep the stack that a request needs; more requests make theirs
	handshakeTime  = 10 * time.Second
	sendTime       = 10 * time.Second // for one message of a stream, once its client's window is shut
	keepaliveTime  = 30 * time.Second // of silence before a client is probed
	keepaliveWait  = 10 * time.Second // for its answer
	keepaliveLeast = 10 * time.Second // between a client's own probes
)

// Plane is the data plane as the API shows it.
type Plane interface {
	Connections() []dataplane.ConnInfo
	Totals() (connections int, sum rpcrdma.Stats)
	Connection(id string) (dataplane.ConnInfo, error)
	Clients() *clients.Table
	Listeners() []dataplane.ListenerInfo
	Connectors() []dataplane.ConnectorInfo
	Stats() []*dataplane.ListenerStats
	Limits() dataplane.Limits
	Memory() int64
	TCPLimits() dataplane.TCPLimits
	DrainConnection(ctx context.Context, id string) error
	CloseConnection(id string) error
	Tracing() *trace.Hub
	SlowCalls() dataplane.SlowCalls
}

// Daemon is the rdmad that a Server shows and changes, beside its data plane. All fields are
// optional.
type Daemon struct {
	Version string
	// Import puts a configuration file in force. nil refuses all imports.
	Import Importer
	// Providers returns the providers, and Devices the RDMA devices of the machine. Both are
	// called for each answer of status.
	Providers []inventory.Provider
	Devices   func() []inventory.Device
	// Memory returns the memory of the process. It is called for each answer. nil leaves it
	// out.
	Memory func() procmem.Usage
	// Descriptors, if not nil, returns how the descriptors of the process are divided.
	Descriptors func() descriptors.Budget
	// LogLevel is the level of the log. nil makes a level that has no effect.
	LogLevel *loglevel.Level
	// Fleet, if not nil, is the fleet of which this rdmad is a node.
	Fleet Fleet
}

// Config configures a Server. Every field from Plane to Access is required.
type Config struct {
	Daemon
	Plane      Plane
	Manager    manager.API
	Store      *desired.Store
	Hub        *watch.Hub
	Conditions *conditions.Registry
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Started    time.Time // when rdmad did
	Access     Access
	// Tracer, if not nil, gets a span for each call except health checks.
	Tracer oteltrace.TracerProvider
	// Console is the web console, or nil while it is off.
	Console *Console
}

// Access decides which clients may do what. Policy and Places are required. Zero values of other fields
// mean the defaults.
type Access struct {
	// Policy gives roles to clients.
	Policy *auth.Policy
	// Certificates make clients use TLS. nil means no TLS. On Unix sockets the kernel
	// identifies clients instead.
	Certificates *auth.Certificates
	Rate         auth.Rate // of each client; zero for auth.DefaultRate
	// Places limits clients' connections.
	Places *Places
	// SendTime limits how long a stream's client may leave a message unread for which no buffer
	// has room. 0 means 10 s.
	SendTime time.Duration
}

// Server answers gRPC. Serve may be called once. The owner must call Shutdown once, at any
// time.
type Server struct {
	grpc     *grpc.Server
	health   *health.Server
	gate     *gate
	itself   *itself
	doorman  *doorman
	log      *slog.Logger
	stopping chan struct{} // closed by Shutdown
	stop     sync.Once
}

// New makes a server with all services, health and reflection. Shutdown ends it, even if it
// never served. Errors are those of registering its metrics.
func New(cfg Config) (*Server, error) {
	validator, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("request validation: %w", err)
	}
	metrics := grpcprom.NewServerMetrics(grpcprom.WithServerHandlingTimeHistogram(
		grpcprom.WithHistogramOpts(&prometheus.HistogramOpts{NativeHistogramBucketFactor: 1.1})))
	if err := cfg.Registerer.Register(metrics); err != nil {
		return nil, fmt.Errorf("metrics of the control plane: %w", err)
	}
	access := cfg.Access
	if cfg.LogLevel == nil {
		cfg.LogLevel = loglevel.New(loglevel.Setting{Level: slog.LevelInfo, Origin: loglevel.Default})
	}
	g := &gate{limiter: auth.NewLimiter(cmp.Or(access.Rate, auth.DefaultRate())), streams: access.Places.streams, validator: validator}
	stopping := make(chan struct{})
	unary, stream := chain(metrics, cfg.Logger, g, edge{cfg.Fleet != nil}, cmp.Or(access.SendTime, sendTime), stopping)
	door := &doorman{auth.Credentials(access.Policy, access.Certificates, cfg.Logger), access.Places, nil, cfg.Logger}
	if access.Certificates == nil {
		door.local = access.Policy.Local
	}
	s := &Server{
		gate: g,
		grpc: grpc.NewServer(append(traced(cfg.Tracer),
			grpc.Creds(door),
			grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
			grpc.ChainUnaryInterceptor(unary...),
			grpc.ChainStreamInterceptor(stream...),
			grpc.MaxRecvMsgSize(maxRequest),
			grpc.MaxSendMsgSize(maxAnswer),
			grpc.MaxHeaderListSize(maxHeaders),
			grpc.MaxConcurrentStreams(maxStreams),
			grpc.NumStreamWorkers(streamWorkers),
			grpc.ConnectionTimeout(handshakeTime),
			grpc.KeepaliveParams(keepalive.ServerParameters{
				Time: keepaliveTime, Timeout: keepaliveWait,
			}),
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveLeast, PermitWithoutStream: true}),
		)...),
		health:   health.NewServer(),
		itself:   newItself(),
		doorman:  door,
		log:      cfg.Logger,
		stopping: stopping,
	}
	rdmadv1.RegisterStatusServiceServer(s.grpc, &statusService{cfg: &cfg})
	rdmadv1.RegisterConnectionServiceServer(s.grpc, &connectionService{plane: cfg.Plane, hub: cfg.Hub})
	rdmadv1.RegisterListenerServiceServer(s.grpc, &listenerService{plane: cfg.Plane, manager: cfg.Manager})
	rdmadv1.RegisterConnectorServiceServer(s.grpc, &connectorService{manager: cfg.Manager})
	rdmadv1.RegisterConfigurationServiceServer(s.grpc, &configurationService{manager: cfg.Manager, store: cfg.Store, importer: cfg.Import})
	rdmadv1.RegisterSettingsServiceServer(s.grpc, &settingsService{store: cfg.Store})
	rdmadv1.RegisterExtensionServiceServer(s.grpc, &extensionService{plane: cfg.Plane, store: cfg.Store})
	rdmadv1.RegisterTelemetryServiceServer(s.grpc, &telemetryService{plane: cfg.Plane, looks: telemetry.NewLooks(cfg.Plane, time.Now()), store: cfg.Store})
	rdmadv1.RegisterAuditServiceServer(s.grpc, &auditService{gate: g})
	rdmadv1.RegisterDiagnosticsServiceServer(s.grpc, &diagnosticsService{plane: cfg.Plane, version: cfg.Version})
	rdmadv1.RegisterProcessServiceServer(s.grpc, &processService{level: cfg.LogLevel, log: cfg.Logger})
	rdmadv1.RegisterFleetServiceServer(s.grpc, &fleetService{fleet: cfg.Fleet})
	rdmadv1.RegisterConsoleServiceServer(s.grpc, &consoleService{console: cfg.Console})
	for name := range s.grpc.GetServiceInfo() {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(s.grpc, &healthService{s.health, cfg.Conditions, s.stopping})
	reflection.Register(s.grpc)
	channelz.RegisterChannelzServiceToServer(s.grpc)
	g.methods = methodsOf(s.grpc.GetServiceInfo())
	return s, nil
}

// Record makes the server record every change in l, and refuse a change that it
// cannot record. Call it before Serve. Without it nothing is recorded.
func (s *Server) Record(l *audit.Log) { s.gate.log = l }

// Serve answers on l until Shutdown. It then returns nil. It owns l.
func (s *Server) Serve(l net.Listener) error {
	go func() { _ = s.grpc.Serve(s.itself) }() // ends with the server, and Shutdown waits for it
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	places := s.doorman.places
	places.run(ctx)
	if err := s.grpc.Serve(port.Listen(l, places.arriving, s.doorman.arrival, s.log)); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Shutdown ends all streams, lets calls in progress finish, and closes everything. If ctx ends first, Shutdown cuts the calls off without waiting,
// and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	s.stop.Do(func() { close(s.stopping) })
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		return fmt.Errorf("control plane cut off calls in progress: %w", context.Cause(ctx))
	}
}
