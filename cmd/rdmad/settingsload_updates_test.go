package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	codec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/dataplane/histogram"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// updates are changes of settings by several operators at once.
type updates struct {
	conn   *grpc.ClientConn
	client rdmadv1.SettingsServiceClient
	ids    []string // of connections

	made, confirmed, late atomic.Uint64
	next                  atomic.Uint64
	answer                histogram.Histogram // ns from request to answer
	slowest               atomic.Int64        // ns
	effects               atomic.Uint64
	took                  time.Duration // in which they were made
	// Within a confirm window every other change is refused.
	window sync.RWMutex
	// Updates of a flag take turns: after one that was late, the next would change nothing.
	turns sync.Mutex
	flag  bool
}

// operators is how many requests are under way at most.
const operators = 8

func (u *updates) init(conn *grpc.ClientConn, ids []string) {
	u.conn, u.client, u.ids = conn, rdmadv1.NewSettingsServiceClient(conn), ids
}

// run makes so many updates per second until ctx ends; what has begun is
// finished.
func (u *updates) run(ctx context.Context, t *testing.T, rate int) {
	begin := time.Now()
	due := make(chan struct{}, operators)
	var working sync.WaitGroup
	for range operators {
		working.Go(func() {
			for range due {
				u.update(t, int(u.next.Add(1)))
			}
		})
	}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			select {
			case due <- struct{}{}:
			default:
				u.late.Add(1) // all operators wait for answers
			}
		case <-ctx.Done():
		}
	}
	close(due)
	working.Wait()
	u.took += time.Since(begin)
}

// update makes the n-th update and checks its answer.
func (u *updates) update(t testing.TB, n int) {
	r, want := u.request(n)
	if flag := r.GetSettings().GetRemoteInvalidation(); flag != nil {
		u.turns.Lock()
		defer u.turns.Unlock()
		u.flag = !u.flag
		flag.Use = &u.flag
	}
	if r.GetConfirmWithin() != nil {
		u.window.Lock()
		defer u.window.Unlock()
	} else {
		u.window.RLock()
		defer u.window.RUnlock()
	}
	begin := time.Now()
	var res answer
	err := u.conn.Invoke(t.Context(), rdmadv1.SettingsService_SetSettings_FullMethodName, r, &res,
		grpc.ForceCodecV2(answerCodec{encoding.GetCodecV2(codec.Name)}))
	took := time.Since(begin)
	if err != nil {
		t.Errorf("update %d, %v: %v", n, r, err)
		return
	}
	u.count(took, res.effects)
	if res.unchanged && !crosses(n) {
		t.Errorf("update %d, %v, changed nothing", n, r)
	}
	if res.revision == 0 || res.effects != want || res.refused != nil || (res.deadline != nil) != (r.GetConfirmWithin() != nil) {
		t.Errorf("update %d, %v: revision %d, %d effects of %d, among them %v, deadline %v", n, r, res.revision, res.effects, want, res.refused, res.deadline)
	}
	if r.GetConfirmWithin() == nil {
		return
	}
	if _, err := u.client.ConfirmSettings(t.Context(), &rdmadv1.ConfirmSettingsRequest{Revision: res.revision}); err != nil {
		t.Errorf("update %d: confirm: %v", n, err)
		return
	}
	u.confirmed.Add(1)
}

func (u *updates) count(took time.Duration, effects int) {
	u.made.Add(1)
	u.effects.Add(uint64(effects))
	u.answer.Record(uint64(took))
	for {
		was := u.slowest.Load()
		if int64(took) <= was || u.slowest.CompareAndSwap(was, int64(took)) {
			return
		}
	}
}

// request is the n-th of a round through the scopes and the settings that
// change what connections do at once, with the number of connections that it
// reaches.
func (u *updates) request(n int) (r *rdmadv1.SetSettingsRequest, reaches int) {
	id, turn := u.ids[n*7919%len(u.ids)], n/10
	if *loadNarrow {
		turn, n = n, n/10*10+[]int{1, 5, 8}[n%3]
	}
	r, reaches = &rdmadv1.SetSettingsRequest{Comment: fmt.Sprintf("load %d", n)}, len(u.ids)
	switch n % 10 {
	case 0:
		r.Settings = sendMax(1024 << (turn % 3))
	case 1:
		r.Scope, r.Settings = "connection/"+id, minChunk(uint32(turn%7)*512)
	case 2:
		r.Scope, r.Settings = "listener/echo", credits(uint32(4+turn%60))
	case 3:
		r.Scope, r.Settings = "peer/127.0.0.0/8", minChunk(uint32(turn%9)*512)
	case 4:
		r.Settings = &rdmadv1.Settings{RemoteInvalidation: &rdmadv1.RemoteInvalidationSettings{}}
	case 5:
		r.Scope, r.Settings = "connection/"+id, sendMax(1024+uint32(turn%7)*512)
	case 6:
		r.Settings, r.ConfirmWithin = minChunk(uint32(turn%4)*1024), durationpb.New(time.Minute)
	case 7:
		r.Scope, r.Unset = "peer/127.0.0.0/8", []string{"ddp.min_chunk"}
	case 8:
		r.Scope, r.Settings = "connection/"+id, credits(uint32(1+turn%64))
	case 9:
		r.Settings = credits(uint32(8 + turn%120))
	}
	if n%10 == 1 || n%10 == 5 || n%10 == 8 {
		reaches = 1
	}
	return r, reaches
}

// crosses says whether another operator may have made or undone what the n-th
// update changes: those of one peer's minimum, set and unset in turns.
func crosses(n int) bool { return n%10 == 3 || n%10 == 7 }

func sendMax(n uint32) *rdmadv1.Settings {
	return &rdmadv1.Settings{Inline: &rdmadv1.InlineSettings{SendMax: &n}}
}

func minChunk(n uint32) *rdmadv1.Settings {
	return &rdmadv1.Settings{Ddp: &rdmadv1.DdpSettings{MinChunk: &n}}
}

func credits(most uint32) *rdmadv1.Settings {
	return &rdmadv1.Settings{Credits: &rdmadv1.CreditsSettings{Max: &most}}
}
