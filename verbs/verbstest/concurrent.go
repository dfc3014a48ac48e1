package verbstest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Several goroutines post on each side at once. Every message arrives once,
// those of one post together and in order.
func testConcurrentPosts(e *env) {
	p := e.pair(Options{SendWR: postDepth, RecvWR: postDepth})
	ctx := e.patience()
	var all sync.WaitGroup
	errs := make(chan error, 2*(posters+2))
	for _, f := range []*flow{newFlow(p.A, p.B), newFlow(p.B, p.A)} {
		for i := range f.rooms() {
			f.to.Receive(uint64(i), i*postSize, postSize)
		}
		all.Go(func() { errs <- f.receive(ctx) })
		all.Go(func() { errs <- f.reap(ctx) })
		for g := range posters {
			mr := f.from.Register(make([]byte, posts*postBatch*postSize), 0)
			all.Go(func() { errs <- f.post(ctx, g, mr) })
		}
	}
	all.Wait()
	close(errs)
	for err := range errs {
		Must(e, err)
	}
}

const (
	posters   = 4
	posts     = 100 // by each poster
	postBatch = 3   // messages of one post
	postSize  = 64
	postDepth = posters * postBatch * 2
)

// flow is the messages in one direction. A post takes a token of each kind. One comes back
// when its sends have completed, the other when its receives have been posted again.
type flow struct {
	from, to        *Side
	slots, receives chan struct{}
}

func newFlow(from, to *Side) *flow {
	f := &flow{from: from, to: to, slots: make(chan struct{}, 2*posters), receives: make(chan struct{}, 2*posters)}
	for range cap(f.slots) {
		f.slots <- struct{}{}
		f.receives <- struct{}{}
	}
	return f
}

func (f *flow) rooms() int { return cap(f.receives) * postBatch }

// token takes a token, unless the flow has failed.
func token(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("poster: %w", ctx.Err())
	}
}

// post is one poster. It writes its number, the number of the post and the number of the
// message into memory of its own, and sends it.
func (f *flow) post(ctx context.Context, g int, mr verbs.MR) error {
	buf := mr.Bytes()
	for n := range posts {
		if err := errors.Join(token(ctx, f.slots), token(ctx, f.receives)); err != nil {
			return err
		}
		var wrs [postBatch]verbs.SendWR
		for k := range wrs {
			at := (n*postBatch + k) * postSize
			binary.BigEndian.PutUint32(buf[at:], uint32(g<<16|n<<4|k))
			wrs[k] = Send(uint64(k), verbs.SGE{MR: mr, Offset: at, Length: postSize})
		}
		if _, err := f.from.QP.PostSend(wrs[:]); err != nil {
			return err
		}
	}
	return nil
}

// reap polls send completions and frees slots.
func (f *flow) reap(ctx context.Context) error {
	for n := range posters * posts * postBatch {
		wc, err := Next(ctx, f.from.SendCQ)
		if err != nil {
			return fmt.Errorf("send %d: %w", n, err)
		}
		if wc.Status != verbs.WCSuccess || wc.ID != uint64(n%postBatch) {
			return fmt.Errorf("send %d: %+v", n, wc)
		}
		if wc.ID == postBatch-1 {
			f.slots <- struct{}{}
		}
	}
	return nil
}

// receive checks the messages and posts their Receives again.
func (f *flow) receive(ctx context.Context) error {
	var next [posters]int
	for n := range posters * posts * postBatch {
		wc, err := Next(ctx, f.to.RecvCQ)
		if err != nil {
			return fmt.Errorf("receive %d: %w", n, err)
		}
		at := int(wc.ID) * postSize
		m := int(binary.BigEndian.Uint32(f.to.MR.Bytes()[at:]))
		g, post, k := m>>16, m>>4&0xfff, m&15
		if wc.Status != verbs.WCSuccess || k != n%postBatch || g >= posters || post != next[g] {
			return fmt.Errorf("receive %d: message %d of post %d by %d: %+v", n, k, post, g, wc)
		}
		recv := verbs.RecvWR{ID: wc.ID, SGL: []verbs.SGE{f.to.SGE(at, postSize)}}
		if _, err := f.to.QP.PostRecv([]verbs.RecvWR{recv}); err != nil {
			return err
		}
		if k == postBatch-1 {
			next[g]++
			f.receives <- struct{}{}
		}
	}
	return nil
}
