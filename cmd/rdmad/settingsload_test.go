package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// What the load is. The defaults make a short run that `go test` takes along;
// `make load` makes the long one.
var (
	loadConnections = flag.Int("load.connections", 100, "connections with traffic")
	loadTime        = flag.Duration("load.time", time.Second, "time in each phase")
	loadSlice       = flag.Duration("load.slice", 500*time.Millisecond, "time before the next phase takes its turn")
	loadCalls       = flag.Int("load.calls", 1000, "calls per second, on all connections together")
	loadUpdates     = flag.Int("load.updates", 100, "settings updates per second")
	loadConsoles    = flag.Int("load.consoles", 3, "web consoles that are open in the phase of that name")
	loadNarrow      = flag.Bool("load.narrow", false, "updates at the scope of one connection alone: what they cost but for the work on all connections")
	loadJSON        = flag.String("load.json", "", "file for the figures, as JSON")
	loadProfile     = flag.String("load.profile", "", "file for a CPU profile of rdmad in the first slice of the phase load.profiled")
	loadProfiled    = flag.String("load.profiled", updating.String(), "phase of the profile")
)

// profileVar tells a rdmad that a test starts to write a CPU profile of the
// time between two SIGUSR1, and then what it has allocated since its start to a
// file of the same name with .allocs.
const profileVar = "RDMAD_TEST_PROFILE"

// endVar has the endTimeout of a rdmad that a test starts.
const endVar = "RDMAD_TEST_END"

// profiledMain is main, with profiles, and a time to end in, when the environment asks for them.
func profiledMain() {
	if limit, err := time.ParseDuration(os.Getenv(endVar)); err == nil {
		endTimeout = limit
	}
	if path := os.Getenv(profileVar); path != "" {
		turn := make(chan os.Signal, 1)
		signal.Notify(turn, syscall.SIGUSR1)
		go func() {
			if err := profile(path, turn); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}()
	}
	main()
}

func profile(path string, turn <-chan os.Signal) error {
	<-turn
	cpu, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return err
	}
	<-turn
	pprof.StopCPUProfile()
	allocs, err := os.Create(path + ".allocs")
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), cpu.Close(), allocs.Close())
}

// phase is what goes on beside the calls.
type phase int

const (
	quiet    phase = iota // nothing
	updating              // settings change
	stalled               // settings change, and clients of streams don't read
	watched               // web consoles are open
	phases
)

func (p phase) String() string {
	return [...]string{"quiet", "updates", "updates, stopped readers", "consoles"}[p]
}

// order is how phases take turns: each is as often before another as after it,
// so that what drifts on the machine hits all of them.
var order = []phase{quiet, updating, stalled, watched, watched, stalled, updating, quiet}

// load is a rdmad with clients.
type load struct {
	r       *rig
	p       *process
	conn    *grpc.ClientConn
	clients []*rpcrdma.Client
	callers callers
	updates updates
	stopped stoppedReaders
	open    consoles
	spent   [phases]costs

	profiles int // begun and ended
}

// TestSettingsUnderLoad changes settings at all scopes, with and without confirm windows, while
// many connections make calls, and with clients of the streams that don't read. No call is lost,
// no connection ends, and every answer is well formed. The test prints figures with -v. No
// result depends on time.
func TestSettingsUnderLoad(t *testing.T) {
	if *loadProfile != "" {
		path := have(filepath.Abs(*loadProfile))(t)
		t.Setenv(profileVar, path)
	}
	l := startLoad(t, newRig(t))
	before := l.connections(t)
	l.run(t)
	l.check(t, before)
	report := l.report()
	t.Logf("\n%s", report)
	if *loadJSON != "" {
		if err := report.write(*loadJSON); err != nil {
			t.Error(err)
		}
	}
}

func startLoad(t testing.TB, r *rig) *load {
	t.Helper()
	// All clients have one address.
	peer := fmt.Sprintf("limits.connections_per_peer=%d", *loadConnections)
	ports := fmt.Sprintf("limits.control.connections=%d", 64+8*(*loadConsoles))
	each := fmt.Sprintf("limits.control.connections_per_peer=%d", 32+4*(*loadConsoles))
	l := &load{r: r, p: r.start("--set", peer, "--set", ports, "--set", each, "--set", "console.listen=127.0.0.1:0")}
	conn := have(grpc.NewClient(l.p.addresses["control"], grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	l.conn = conn
	t.Cleanup(func() { conn.Close() })
	l.dialAll(t)
	return l
}

// dialers is how many connections are being made at once.
const dialers = 16

func (l *load) dialAll(t testing.TB) {
	t.Helper()
	// What 1,000 clients take of this process is to be small.
	s := rpcrdma.DefaultSettings()
	s.CreditsMax = 8
	l.clients = make([]*rpcrdma.Client, *loadConnections)
	var dialing sync.WaitGroup
	for d := range dialers {
		dialing.Go(func() {
			for i := d; i < len(l.clients); i += dialers {
				c, err := rpcrdma.Dial(t.Context(), l.r.provider, l.p.addresses["echo"], rpcrdma.DialConfig{Settings: &s, MemoryLimit: 2 << 20})
				if err == nil {
					l.clients[i] = c
					err = c.Call(t.Context(), echoCall(nil)) // rdmad lists it before it answers
				}
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
			}
		})
	}
	dialing.Wait()
	t.Cleanup(func() {
		for _, c := range l.clients {
			if c != nil {
				c.Close()
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// run takes turns until each phase had its time.
func (l *load) run(t *testing.T) {
	l.callers.start(t, l.clients, *loadCalls)
	ids := l.ids(t)
	l.updates.init(l.conn, ids)
	l.open.login(t, l.conn)
	turns := max(int(*loadTime / *loadSlice), 1) * int(phases)
	for i := range turns {
		// What is between two phases counts for neither.
		before := l.costs(t)
		l.turn(t, order[i%len(order)], ids[0])
		l.spent[order[i%len(order)]].add(before, l.costs(t))
	}
	l.callers.stop()
}

// turn is one slice of a phase.
func (l *load) turn(t *testing.T, p phase, id string) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var beside sync.WaitGroup
	if p.String() == *loadProfiled {
		l.profiled(t)
		defer l.profiled(t)
	}
	if p == stalled {
		l.stopped.open(ctx, t, l.conn, &beside)
	}
	if p == watched {
		l.open.open(ctx, t, id, &beside)
	}
	time.AfterFunc(*loadSlice, cancel)
	if p == updating || p == stalled {
		beside.Go(func() { l.updates.run(ctx, t, *loadUpdates) })
	}
	l.callers.enter(p)
	<-ctx.Done()
	l.callers.enter(phases)
	beside.Wait()
}

// profiled begins and ends the profile.
func (l *load) profiled(t testing.TB) {
	if *loadProfile != "" && l.profiles < 2 {
		l.profiles++
		if err := l.p.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			t.Error(err)
		}
	}
}

// connections returns rdmad's list of its connections, by id.
func (l *load) connections(t testing.TB) map[string]*rdmadv1.Connection {
	t.Helper()
	all := make(map[string]*rdmadv1.Connection)
	client := rdmadv1.NewConnectionServiceClient(l.conn)
	for token := ""; ; {
		res := have(client.ListConnections(t.Context(), &rdmadv1.ListConnectionsRequest{PageToken: token}))(t)
		for _, c := range res.GetConnections() {
			all[c.GetId()] = c
		}
		if token = res.GetNextPageToken(); token == "" {
			return all
		}
	}
}

func (l *load) ids(t testing.TB) (ids []string) {
	for id := range l.connections(t) {
		ids = append(ids, id)
	}
	return ids
}

// check checks that nothing was lost.
func (l *load) check(t *testing.T, before map[string]*rdmadv1.Connection) {
	t.Helper()
	after := l.connections(t)
	if len(before) != len(l.clients) || len(after) != len(before) {
		t.Errorf("%d connections before and %d after, of %d", len(before), len(after), len(l.clients))
	}
	var calls, replies, errors float64
	for id, c := range after {
		was := before[id]
		if was == nil {
			t.Errorf("connection %s came in the middle of it", id)
		}
		calls += c.GetCalls() - was.GetCalls()
		replies += c.GetReplies() - was.GetReplies()
		errors += c.GetErrors()
	}
	made := float64(l.callers.made.Load())
	if calls != made || replies != made || errors != 0 {
		t.Errorf("%v calls made; rdmad counts %v, %v replies, %v errors", made, calls, replies, errors)
	}
	for i, c := range l.clients {
		if err := c.Err(); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
		if s := c.Stats(); s.Errors != 0 || s.BadReplies != 0 || s.BadXIDs != 0 {
			t.Errorf("client %d counts %+v", i, s)
		}
	}
	if *loadConsoles > 0 && (l.open.read.Load() == 0 || l.open.answers.Load() == 0) {
		t.Error("no console read anything")
	}
	if made == 0 || l.updates.made.Load() == 0 || l.updates.confirmed.Load() == 0 && !*loadNarrow || l.stopped.opened == 0 {
		t.Errorf("%v calls, %d updates, %d of them confirmed, %d stopped readers: nothing is shown",
			made, l.updates.made.Load(), l.updates.confirmed.Load(), l.stopped.opened)
	}
	for line := range strings.Lines(l.p.Log()) {
		if strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "connection down") {
			t.Errorf("rdmad says: %s", line)
		}
	}
}
