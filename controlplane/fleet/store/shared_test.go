package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestShared: the first of many callers has a read of its own, and all others share the next one. A read goes on
// when its caller gives up.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		reads := 0
		read := func(ctx context.Context) (int, error) {
			reads++
			n := reads
			time.Sleep(time.Minute)
			return n, ctx.Err()
		}
		hasty, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
		defer giveUp()
		got := make(chan int, 100)
		ask := func(ctx context.Context) {
			n, err := s.get(ctx, read)
			if err != nil {
				n = -1
			}
			if err != nil && (ctx != hasty || !errors.Is(err, context.DeadlineExceeded)) {
				t.Error(err)
			}
			got <- n
		}
		begun := time.Now()
		go ask(hasty)
		synctest.Wait()
		for range 50 {
			go ask(t.Context())
		}
		if n := <-got; n != -1 || time.Since(begun) != 8*time.Second {
			t.Errorf("got %d after %v", n, time.Since(begun))
		}
		for range 50 {
			if n := <-got; n != 2 {
				t.Errorf("got %d", n)
			}
		}
		go ask(t.Context())
		if n := <-got; n != 3 || time.Since(begun) != 3*time.Minute {
			t.Errorf("got %d after %v", n, time.Since(begun))
		}
	})
}

// slowKV is an empty etcd that takes a second for each answer.
type slowKV struct {
	clientv3.KV
	asked atomic.Int32
}

func (k *slowKV) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	k.asked.Add(1)
	time.Sleep(time.Second)
	return &clientv3.GetResponse{Header: &pb.ResponseHeader{}}, nil
}

// TestListsAreShared: many clients that list the same have etcd read it as often as two.
func TestListsAreShared(t *testing.T) {
	for what, list := range map[string]func(context.Context, *Store) error{
		"nodes":    func(ctx context.Context, s *Store) error { _, _, err := s.AllNodes(ctx); return err },
		"policies": func(ctx context.Context, s *Store) error { _, err := s.Newest(ctx); return err },
		"rollouts": func(ctx context.Context, s *Store) error { _, err := s.AllRollouts(ctx, ""); return err },
		"history":  func(ctx context.Context, s *Store) error { _, _, err := s.History(ctx, 0, 20); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			kv := new(slowKV)
			s := &Store{prefix: "/rdmad/", client: &clientv3.Client{KV: kv}}
			if err := list(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			alone := kv.asked.Swap(0)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if err := list(t.Context(), s); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := kv.asked.Load(); n > 2*alone {
				t.Errorf("%s: %d requests for 50 lists, %d for one", what, n, alone)
			}
		})
	}
}
