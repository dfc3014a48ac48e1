package rpcrdma_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// around is called in place of a queue pair's PostSend, and calls that.
type around func(wrs []verbs.SendWR, post func())

// posting is a provider with around at the queue pairs of its connections, or of
// those that a listener accepts alone.
func posting(p rdmacm.Provider, passive bool, a around) rdmacm.Provider {
	return &wrappedProvider{p, func(id rdmacm.ID, accepted bool) rdmacm.ID {
		if passive && !accepted {
			return id
		}
		return slowID{id, a}
	}}
}

type slowID struct {
	rdmacm.ID
	around around
}

func (i slowID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	qp, err := i.ID.CreateQP(pd, attr)
	if err != nil {
		return nil, err
	}
	return slowQP{qp, i.around}, nil
}

type slowQP struct {
	verbs.QP
	around around
}

func (q slowQP) PostSend(wrs []verbs.SendWR) (n int, err error) {
	q.around(wrs, func() { n, err = q.QP.PostSend(wrs) })
	return n, err
}

// TestRepliesLeaveTogether: while one reply is being posted, nobody waits to post
// another; all the others go by one call of the queue pair.
func TestRepliesLeaveTogether(t *testing.T) {
	const callers = 40
	synctest.Test(t, func(t *testing.T) {
		var held, release = make(chan struct{}, callers), make(chan struct{})
		var slow atomic.Bool
		leave := make(chan struct{})
		var posts []int // Sends in each
		p := posting(loopback.New(loopback.Config{}), true, func(wrs []verbs.SendWR, post func()) {
			if slow.Load() {
				posts = append(posts, len(wrs))
				<-leave
			}
			post()
		})
		b := newBed(t, p, bedConfig{timeout: time.Hour, handler: handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if c.Procedure == procNull {
				return nil
			}
			held <- struct{}{}
			<-release
			return service{}.ServeRPC(ctx, c, r)
		})})
		c, conn := b.dial(nil)
		must(t, plain(b.ctx, c, procNull)) // brings credits
		var calls sync.WaitGroup
		for i := range callers {
			calls.Go(func() { should(t, echo(b.ctx, c, 100+i, uint32(i))) })
		}
		for range callers {
			<-held
		}
		slow.Store(true)
		close(release)
		synctest.Wait()
		if n := conn.Stats().Replies; n != 1+callers {
			t.Errorf("%d replies, though nobody has to wait", n-1)
		}
		leave <- struct{}{}
		synctest.Wait()
		slow.Store(false)
		close(leave)
		calls.Wait()
		if len(posts) != 2 || posts[0] != 1 || posts[1] != callers-1 {
			t.Errorf("Sends posted together: %v", posts)
		}
	})
}

// TestDataLeavesWithItsReply: the RDMA Writes of a result and the Send of its reply go by one
// call of the queue pair.
func TestDataLeavesWithItsReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var posts [][]verbs.Opcode
		p := posting(loopback.New(loopback.Config{}), true, func(wrs []verbs.SendWR, post func()) {
			var ops []verbs.Opcode
			for i := range wrs {
				ops = append(ops, wrs[i].Op)
			}
			posts = append(posts, ops)
			post()
		})
		b := newBed(t, p, bedConfig{timeout: time.Hour})
		c, _ := b.dial(nil)
		must(t, plain(b.ctx, c, procNull)) // brings credits
		synctest.Wait()
		posts = nil
		must(t, readBack(b.ctx, c, procRead, 64<<10, 64<<10, 1))
		synctest.Wait()
		if len(posts) != 1 || len(posts[0]) != 2 || posts[0][0] != verbs.OpRDMAWrite ||
			posts[0][1] != verbs.OpSend && posts[0][1] != verbs.OpSendInvalidate {
			t.Errorf("posts of a reply with data: %v", posts)
		}
	})
}

// TestCloseWhilePosting: a connection that is closed waits for who posts, and
// everything is freed after that.
func TestCloseWhilePosting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		leave := make(chan struct{})
		p := posting(loopback.New(loopback.Config{}), false, func(_ []verbs.SendWR, post func()) {
			if slow.Load() {
				<-leave
			}
			post()
		})
		b := newBed(t, p, bedConfig{timeout: time.Hour})
		c, conn := b.dial(nil)
		must(t, plain(b.ctx, c, procNull)) // brings credits
		slow.Store(true)
		var calls sync.WaitGroup
		for i := range 10 {
			calls.Go(func() {
				if echo(b.ctx, c, 100, uint32(i)) == nil {
					t.Error("a call that could not be sent was answered")
				}
			})
		}
		synctest.Wait()
		calls.Go(func() { should(t, c.Close()) })
		synctest.Wait()
		select {
		case <-c.Done():
			t.Error("closed while somebody posts")
		default:
		}
		slow.Store(false)
		close(leave)
		calls.Wait()
		<-conn.Done()
	})
}

// TestPostsLast: everything goes well while calls of the queue pair last: requests
// complete, and others use their memory again, before they return.
func TestPostsLast(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var turn atomic.Uint32
		slow := posting(p, false, func(_ []verbs.SendWR, post func()) {
			for range turn.Add(1) % 8 {
				runtime.Gosched()
			}
			post()
			for range turn.Add(1) % 16 {
				runtime.Gosched()
			}
		})
		b := newBed(t, slow, bedConfig{})
		var clients sync.WaitGroup
		for range 2 {
			c, conn := b.dial(func(s *rpcrdma.Settings) { s.CreditsMax = 32 })
			clients.Go(func() {
				load(t, b.ctx, c, 24, 12, func() {})
				should(t, conn.Drain(b.ctx))
				if s := conn.Stats(); s.Calls != 24*12 || s.Replies != s.Calls || s.Errors != 0 {
					t.Errorf("%+v", s)
				}
			})
		}
		clients.Wait()
	})
}

// TestGiveUpBeforePosting: a call may be given up while the binds of the call before it are
// being posted. Its memory stays until its Send is posted, though it has no windows.
func TestGiveUpBeforePosting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		leave := make(chan struct{})
		p := posting(loopback.New(loopback.Config{}), false, func(_ []verbs.SendWR, post func()) {
			if slow.Load() {
				<-leave
			}
			post()
		})
		b := newBed(t, p, bedConfig{timeout: time.Hour})
		c, conn := b.dial(nil)
		must(t, plain(b.ctx, c, procNull)) // brings credits
		slow.Store(true)
		var exposes, gone sync.WaitGroup
		exposes.Go(func() { should(t, echo(b.ctx, c, 9000, 1)) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(b.ctx)
		for range 3 {
			gone.Go(func() {
				if err := echo(ctx, c, 100, 2); !errors.Is(err, context.Canceled) {
					t.Errorf("a call that was given up: %v", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		slow.Store(false)
		close(leave)
		gone.Wait()
		exposes.Wait()
		should(t, echo(b.ctx, c, 9000, 3))
		if n := conn.Stats().Calls; n != 6 {
			t.Errorf("%d calls arrived, not 6", n)
		}
	})
}
