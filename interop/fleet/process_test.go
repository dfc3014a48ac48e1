package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/controlplane/auth/authtest"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/interop/child"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// nodeEnv makes the test program run a node. It is the node's configuration.
const nodeEnv = "RDMAD_FLEET_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(clockEnv) != "" {
		playClock()
		return
	}
	if text := os.Getenv(nodeEnv); text != "" {
		if err := playNode(text); err != nil {
			panic(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// processConfig is what a node in a process of its own is made with.
type processConfig struct {
	Name, State   string
	Endpoints     []string
	CA, Cert, Key string
	Plants        plants
}

// Times of nodes under faults: as short as etcd permits.
const (
	faultyTTL   = 2 * time.Second
	faultyEvery = time.Second
)

// playNode runs a node, and writes its history, until SIGTERM.
func playNode(text string) error {
	var c processConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	secure, err := authtest.Client(c.CA, c.Cert, c.Key)
	if err != nil {
		return err
	}
	n, err := newNode(c.Name, "role=gateway", c.State, store.Config{Endpoints: c.Endpoints, TLS: secure})
	if err != nil {
		return err
	}
	rec := &recorder{out: os.Stdout}
	if err := rec.started(n); err != nil {
		return err
	}
	recorded(n, rec, c.Plants)
	n.agent.Load = n.suffers
	n.agent.TTL, n.agent.Every, n.lead.TTL = faultyTTL, faultyEvery, faultyTTL
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n.run(ctx)
	return nil
}

// recorded has a node's history written.
func recorded(n *node, r *recorder, p plants) {
	n.agent.Local = recordedLocal{n.settings, r, n.name, p}
	n.lead.Logger = slog.New(listener{slog.DiscardHandler, r.won})
	client := n.store.Client()
	client.KV = recordedKV{client.KV, r, n, p}
	if p.NoRelist {
		client.Watcher = forgetful{client.Watcher}
	}
}

// suffers is the work of a node on which harmful policies bring errors, each more than the one
// before.
func (n *node) suffers(time.Time) fleet.Load {
	layer, _ := n.settings.Fleet()
	v := layer.Scopes[settings.Scope{}].Values
	if !harms(&v) {
		return fleet.Load{}
	}
	return fleet.Load{Errors: 100 * float64(v.Value(live.CreditsMax))}
}

// process is a node in a process of its own. It is killed and started again.
type process struct {
	processConfig
	relays  []*relay
	journal *journal
	child   *child.Process // nil when it does not run
	read    sync.WaitGroup
}

func (p *process) start() error {
	text, err := json.Marshal(p.processConfig)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), nodeEnv+"="+string(text), "GOMAXPROCS=2")
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	p.child, err = child.Start(cmd)
	w.Close()
	if err != nil {
		r.Close()
		return err
	}
	number := p.journal.process()
	p.read.Go(func() {
		defer r.Close()
		p.journal.read(r, number)
	})
	return nil
}

// kill ends the node at once. Its state stays.
func (p *process) kill() {
	if p.child != nil {
		p.child.Kill()
		p.read.Wait()
		p.child = nil
	}
}

func (p *process) signal(s syscall.Signal) {
	if p.child != nil {
		p.child.Signal(s)
	}
}

// journal is the histories of all processes of an execution.
type journal struct {
	mu        sync.Mutex
	more      sync.Cond
	processes int
	records   []record
}

func (j *journal) process() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.processes++
	return j.processes
}

// while waits as long as ok holds of the records, and reports whether it still does when ctx ends.
func (j *journal) while(ctx context.Context, ok func([]record) bool) bool {
	stop := context.AfterFunc(ctx, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.more.Broadcast()
	})
	defer stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	for ok(j.records) {
		if ctx.Err() != nil {
			return true
		}
		j.more.Wait()
	}
	return false
}

func (j *journal) read(r io.Reader, process int) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var rec record
		if json.Unmarshal(lines.Bytes(), &rec) != nil {
			continue // cut off by a kill, or not of the recorder
		}
		rec.Process = process
		j.mu.Lock()
		j.records = append(j.records, rec)
		j.more.Broadcast()
		j.mu.Unlock()
	}
}
