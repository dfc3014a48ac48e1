package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// fault is one of the things that go wrong. begin returns how it ends.
type fault struct {
	name  string
	brief bool // ends before leases and sessions do, so that watches go on
	begin func(x *execution, member, node int) (end func() error, err error)
}

// clocks are the faults of clocks.
var clocks = []fault{
	{"step a member's clock", false, func(x *execution, member, _ int) (func() error, error) {
		return after(func() {}), x.step(x.etcd.Members[member].Pid())
	}},
	{"step a node's clock", false, func(x *execution, _, node int) (func() error, error) {
		return after(func() {}), x.step(x.nodes[node].child.Pid())
	}},
	{"step the controller's clock, and kill it", false, func(x *execution, _, node int) (func() error, error) {
		n := x.leader(node)
		err := x.step(n.child.Pid())
		return func() error {
			n.kill()
			return n.start()
		}, err
	}},
}

// outage is longer than any confirm window.
var outage = fault{"cut all nodes off until nothing waits to be confirmed", false, func(x *execution, _, _ int) (func() error, error) {
	var ends []func() error
	for _, n := range x.nodes {
		ends = append(ends, n.links((*relay).cut))
	}
	return func() error {
		ctx, cancel := context.WithTimeout(x.ctx, longest)
		defer cancel()
		waiting := x.journal.while(ctx, x.waits)
		for _, end := range ends {
			_ = end()
		}
		if waiting {
			return errForgot
		}
		return nil
	}, nil
}}

// errForgot is no fault of the execution.
var errForgot = errors.New("a node that nobody confirms does not take back what it was assigned")

// waits reports whether a node has an assignment in force that etcd wants to be confirmed.
func (x *execution) waits(records []record) bool {
	newest := make(map[string]record)
	for _, r := range records {
		switch now := newest[r.Node]; {
		case r.Outcome != done:
		case r.Op == opApply || r.Op == opStart:
			newest[r.Node] = r
		case r.Op == opBack && r.Lost == now.Rev:
			delete(newest, r.Node)
		}
	}
	for node, r := range newest {
		if x.observer.window(node, r.Rev) {
			return true
		}
	}
	return false
}

// step sets the clock of a process ahead or behind, by up to half an hour: certificates are good for
// longer.
func (x *execution) step(pid int) error {
	ahead := time.Duration(x.rnd.IntN(3600)-1800) * time.Second
	x.t.Logf("by %v", ahead)
	err := stepClock(pid, ahead)
	if errors.Is(err, errors.ErrUnsupported) {
		x.t.Logf("not done: %v", err)
		return nil
	}
	return err
}

// faults are all others. Each has a member and a node to happen to.
var faults = []fault{
	{"kill a member", false, func(x *execution, member, _ int) (func() error, error) {
		m := x.etcd.Members[member]
		m.Kill()
		return m.Start, nil
	}},
	{"pause a member", false, func(x *execution, member, _ int) (func() error, error) {
		m := x.etcd.Members[member]
		m.Pause()
		return after(m.Resume), nil
	}},
	{"slow a member", false, slow},
	{"isolate a member", false, func(x *execution, member, _ int) (func() error, error) {
		x.network.isolate(member, (*relay).cut)
		return after(func() { x.network.isolate(member, (*relay).restore) }), nil
	}},
	{"kill a node", false, func(x *execution, _, node int) (func() error, error) { return x.nodes[node].restart(), nil }},
	{"pause a node", false, func(x *execution, _, node int) (func() error, error) { return x.nodes[node].pause(), nil }},
	{"kill the controller", false, func(x *execution, _, node int) (func() error, error) { return x.leader(node).restart(), nil }},
	{"pause the controller", false, func(x *execution, _, node int) (func() error, error) { return x.leader(node).pause(), nil }},
	{"cut a node off", false, func(x *execution, _, node int) (func() error, error) { return x.nodes[node].links((*relay).cut), nil }},
	{"hold what a node sends and receives", false, func(x *execution, _, node int) (func() error, error) {
		return x.nodes[node].links((*relay).hold), nil
	}},
	{"cut all nodes off for a moment and compact", true, func(x *execution, _, _ int) (func() error, error) {
		var ends []func() error
		for _, n := range x.nodes {
			ends = append(ends, n.links((*relay).cut))
		}
		return func() error {
			err := errors.Join(x.change(), x.change()) // the newest revision is not compacted
			if err == nil {
				err = lenient(x.observer.await(x.ctx, x.newest()))
			}
			if err == nil {
				err = x.compact()
			}
			for _, end := range ends {
				_ = end()
			}
			return err
		}, nil
	}},
	{"compact", false, func(x *execution, _, _ int) (func() error, error) { return after(func() {}), x.compact() }},
	{"end a node's lease", false, func(x *execution, _, node int) (func() error, error) {
		return after(func() {}), x.revoke(x.admin.store.NodeKey(x.nodes[node].Name))
	}},
	{"end the controller's lease", false, func(x *execution, _, _ int) (func() error, error) {
		return after(func() {}), x.revoke(x.admin.store.ElectionKey())
	}},
}

func after(f func()) func() error {
	return func() error {
		f()
		return nil
	}
}

// slow stops a member for 40 of every 50 ms, as a disk does on which each write takes long.
func slow(x *execution, member, _ int) (func() error, error) {
	ctx, cancel := context.WithCancel(x.ctx)
	ended := make(chan struct{})
	m := x.etcd.Members[member]
	go func() {
		defer close(ended)
		defer m.Resume()
		for pause(ctx, 10*time.Millisecond) {
			m.Pause()
			if !pause(ctx, 40*time.Millisecond) {
				return
			}
			m.Resume()
		}
	}()
	return func() error {
		cancel()
		<-ended
		return nil
	}, nil
}

// pause reports whether ctx lasted.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// restart kills a node, and starts it in the end.
func (p *process) restart() func() error {
	p.kill()
	return p.start
}

func (p *process) pause() func() error {
	p.signal(syscall.SIGSTOP)
	return after(func() { p.signal(syscall.SIGCONT) })
}

// links changes all connections of a node to etcd, and restores them in the end.
func (p *process) links(change func(*relay)) func() error {
	for _, r := range p.relays {
		change(r)
	}
	return after(func() {
		for _, r := range p.relays {
			r.restore()
		}
	})
}

// leader is the node that is the controller; another one if there is none.
func (x *execution) leader(other int) *process {
	res, err := x.get(x.admin.store.ElectionKey(), clientv3.WithFirstCreate()...)
	if err == nil && len(res.Kvs) == 1 {
		for _, n := range x.nodes {
			if n.Name == string(res.Kvs[0].Value) {
				return n
			}
		}
	}
	return x.nodes[other]
}

func (x *execution) get(key string, o ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	return x.etcd.Client().Get(ctx, key, append(o, clientv3.WithPrefix())...)
}

// revoke ends the lease of the oldest key with a prefix.
func (x *execution) revoke(key string) error {
	res, err := x.get(key, clientv3.WithFirstCreate()...)
	if err != nil || len(res.Kvs) == 0 {
		return nil // no leader, or no node
	}
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	_, err = x.etcd.Client().Revoke(ctx, clientv3.LeaseID(res.Kvs[0].Lease))
	return lenient(err)
}

// compact compacts all that the observer has seen.
func (x *execution) compact() error {
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	_, err := x.etcd.Client().Compact(ctx, x.observer.revision())
	return lenient(err)
}

// lenient leaves errors out that faults of etcd bring.
func lenient(err error) error {
	if err == nil || strings.Contains(err.Error(), "etcdserver: ") || strings.Contains(err.Error(), "deadline exceeded") || strings.Contains(err.Error(), "Unavailable") {
		return nil
	}
	return fmt.Errorf("fault: %w", err)
}
