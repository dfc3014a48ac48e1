package fleet

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// record is one line of a process's history: the beginning or the end of an operation.
type record struct {
	Time    int64 // monotonic, in nanoseconds; the same clock in all processes
	Process int   // counts the processes of an execution; set by their parent
	ID      int   // of the operation, in its process
	Op      op
	Begins  bool
	Node    string
	Term    int64             // revision at which the writer's election key was made; 0 without election
	Values  map[string]string // of assignments, by node
	Rev     int64             // of etcd, or of the assignment
	Lost    int64             // assignment that was taken back
	Waits   bool              // the assignment waits to be confirmed
	Outcome outcome
	Layer   map[string]string // in force, SCOPE KEY to VALUE POLICY
}

type op string

const (
	opLead  op = "lead"  // from the campaign to the knowledge that it was won
	opWrite op = "write" // a transaction with assignments, or with a rollout
	opRead  op = "read"  // a linearizable read of an assignment
	opApply op = "apply" // an assignment comes in force
	opBack  op = "back"  // an assignment that was not confirmed is taken back
	opStart op = "start" // what is in force when a process starts
)

type outcome string

const (
	done    outcome = "done"
	refused outcome = "refused"
	unknown outcome = "unknown"
)

// recorder writes the history of one process. Each line is one write(2): a process that is killed
// loses none.
type recorder struct {
	mu   sync.Mutex
	out  io.Writer
	next int
	term int64 // of the election key that was made last
	lead int   // operation that is to end when the election is won
}

func (r *recorder) write(rec record) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	rec.Time = now.Nano()
	b, err := json.Marshal(rec)
	if err != nil {
		panic(err)
	}
	_, _ = r.out.Write(append(b, '\n')) // without a parent nobody reads it
}

// begin writes the beginning of an operation. end writes its end.
func (r *recorder) begin(rec record) (end func(change func(*record))) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	rec.ID, rec.Begins = r.next, true
	r.write(rec)
	return func(change func(*record)) {
		r.mu.Lock()
		defer r.mu.Unlock()
		rec.Begins = false
		change(&rec)
		r.write(rec)
	}
}

// recordedKV records what a process does with assignments and elections.
type recordedKV struct {
	clientv3.KV
	*recorder
	node   *node
	plants plants
}

func (k recordedKV) Get(ctx context.Context, key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if key != k.node.store.AssignmentKey(k.node.name) {
		return k.KV.Get(ctx, key, o...)
	}
	end := k.begin(record{Op: opRead, Node: k.node.name})
	res, err := k.KV.Get(ctx, key, o...)
	end(func(r *record) {
		r.Outcome = unknown
		if err == nil {
			r.Outcome, r.Values = done, map[string]string{}
			for _, kv := range res.Kvs {
				r.Rev, r.Values[k.node.name] = kv.ModRevision, string(kv.Value)
			}
		}
	})
	return res, err
}

func (k recordedKV) Txn(ctx context.Context) clientv3.Txn {
	return &recordedTxn{Txn: k.KV.Txn(ctx), kv: k}
}

// recordedTxn puts a transaction together again, with the faults that are planted.
type recordedTxn struct {
	clientv3.Txn
	kv       recordedKV
	compares []clientv3.Cmp
	then     []clientv3.Op
	other    []clientv3.Op
}

func (t *recordedTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	for _, c := range cs {
		fence := strings.HasPrefix(string(c.KeyBytes()), t.kv.node.store.ElectionKey()) && c.GetCompare().GetCreateRevision() != 0
		if !t.kv.plants.NoFence || !fence {
			t.compares = append(t.compares, c)
		}
	}
	return t
}

func (t *recordedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = append(t.then, ops...)
	return t
}

func (t *recordedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.other = append(t.other, ops...)
	return t
}

func (t *recordedTxn) Commit() (*clientv3.TxnResponse, error) {
	commit := t.Txn.If(t.compares...).Then(t.kv.plants.ops(t.then)...).Else(t.other...).Commit
	s := t.kv.node.store
	values := make(map[string]string)
	campaign, rollout := false, false
	for _, op := range t.then {
		key := string(op.KeyBytes())
		if node, ok := strings.CutPrefix(key, s.AssignmentKey("")); ok && op.IsPut() {
			values[node] = string(op.ValueBytes())
		}
		campaign = campaign || op.IsPut() && strings.HasPrefix(key, s.ElectionKey())
		rollout = rollout || op.IsPut() && strings.HasPrefix(key, rollouts)
	}
	switch {
	case campaign:
		return t.kv.campaign(commit)
	case rollout || len(values) > 0:
		return t.kv.assign(values, commit)
	}
	return commit()
}

// campaign makes the key of an election. The operation ends when the election is won.
func (r *recorder) campaign(commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	r.mu.Lock()
	r.next++
	r.lead = r.next
	r.write(record{Op: opLead, ID: r.lead, Begins: true})
	r.mu.Unlock()
	res, err := commit()
	if err == nil && res.Succeeded {
		r.mu.Lock()
		r.term = res.Header.Revision
		r.mu.Unlock()
	}
	return res, err
}

func (r *recorder) won() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(record{Op: opLead, ID: r.lead, Term: r.term, Outcome: done})
}

func (r *recorder) assign(values map[string]string, commit func() (*clientv3.TxnResponse, error)) (*clientv3.TxnResponse, error) {
	r.mu.Lock()
	term := r.term
	r.mu.Unlock()
	end := r.begin(record{Op: opWrite, Term: term, Values: values})
	res, err := commit()
	end(func(rec *record) {
		switch {
		case err != nil:
			rec.Outcome = unknown
		case res.Succeeded:
			rec.Outcome, rec.Rev = done, res.Header.Revision
		default:
			rec.Outcome = refused
		}
	})
	return res, err
}

// recordedLocal records assignments that come in force.
type recordedLocal struct {
	*desired.Store
	*recorder
	node   string
	plants plants
}

func (l recordedLocal) Assign(f settings.FleetLayer, confirmWithin time.Duration) (desired.Result, bool, error) {
	if l.plants.NoWindow {
		confirmWithin = 0
	}
	now, _ := l.Fleet()
	if f.Equal(&now) {
		return l.Store.Assign(f, confirmWithin)
	}
	end := l.begin(record{Op: opApply, Node: l.node, Rev: f.Assignment, Layer: written(f), Waits: confirmWithin != 0})
	res, ok, err := l.Store.Assign(f, confirmWithin)
	end(func(r *record) {
		r.Outcome = refused
		if ok {
			r.Outcome, r.Waits = done, !res.ConfirmDeadline.IsZero()
		}
		if now, _ := l.Fleet(); ok && now.Assignment == f.Assignment { // else it was taken back already
			r.Layer = written(now)
		}
	})
	return res, ok, err
}

// started records what is in force when a process starts, and from then on what is taken back.
func (r *recorder) started(n *node) error {
	w, err := n.settings.Watch()
	if err != nil {
		return err
	}
	now, _ := n.settings.Fleet()
	p, from := n.settings.Pending(), n.settings.Revision()
	if p != nil {
		now, from = p.Step.Fleet.After, p.Revision
	}
	end := r.begin(record{Op: opBack, Node: n.name})
	r.begin(record{Op: opStart, Node: n.name, Rev: now.Assignment, Layer: written(now), Waits: p != nil})(func(r *record) { r.Outcome = done })
	go func() { // as long as the process
		for e := range w.Events() {
			if e.Kind != history.AutoRollback || e.Revision <= from {
				continue
			}
			end(func(r *record) {
				back := e.Step.Fleet.After
				r.Outcome, r.Rev, r.Lost, r.Layer = done, back.Assignment, back.TakenBack, written(back)
			})
			end = r.begin(record{Op: opBack, Node: n.name})
		}
	}()
	return nil
}

// written is a layer as text.
func written(f settings.FleetLayer) map[string]string {
	out := make(map[string]string)
	for scope, v := range f.Scopes {
		for _, k := range v.Values.Keys().Keys() {
			out[scope.String()+" "+k.String()] = v.Values.Format(k) + " " + v.Policies[k]
		}
	}
	return out
}

// listener notices that an election is won.
type listener struct {
	slog.Handler
	won func()
}

func (l listener) Enabled(context.Context, slog.Level) bool { return true }

func (l listener) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "fleet: this rdmad is the controller" {
		l.won()
	}
	return nil
}

// plants are bugs, planted around the client of etcd.
type plants struct {
	NoFence      bool // the controller's writes don't depend on its election
	NoRelist     bool // a watch goes on after a compaction as if nothing was missed
	LeasedPolicy clientv3.LeaseID
	NoWindow     bool // a node forgets that an assignment waits to be confirmed
	NoConfirm    bool // the controller forgets to confirm
}

const (
	policies = prefix + "/policy/"
	rollouts = prefix + "/rollout/"
)

// ops plants bugs into the puts of a transaction.
func (p plants) ops(all []clientv3.Op) []clientv3.Op {
	out := append([]clientv3.Op(nil), all...)
	for i, op := range out {
		if !op.IsPut() {
			continue
		}
		key, value := string(op.KeyBytes()), string(op.ValueBytes())
		switch {
		case p.LeasedPolicy != 0 && strings.HasPrefix(key, policies):
			out[i] = clientv3.OpPut(key, value, clientv3.WithLease(p.LeasedPolicy))
		case p.NoConfirm && strings.HasPrefix(key, prefix+"/assign/") && strings.Contains(value, `"rollout"`) && !strings.Contains(value, `"confirm_within"`):
			out[i] = clientv3.OpPut(key, `{"confirm_within":"30s",`+value[1:])
		}
	}
	return out
}

// forgetful is a watcher that hides compactions.
type forgetful struct{ clientv3.Watcher }

func (f forgetful) Watch(ctx context.Context, key string, o ...clientv3.OpOption) clientv3.WatchChan {
	out := make(chan clientv3.WatchResponse)
	go func() {
		defer close(out)
		in := f.Watcher.Watch(ctx, key, o...)
		for {
			res, ok := <-in
			if res.CompactRevision != 0 {
				in = f.Watcher.Watch(ctx, key, append(o, clientv3.WithRev(res.CompactRevision+1))...)
				continue
			}
			if !ok {
				return
			}
			select {
			case out <- res:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}
