package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// smallRead is the size of the READs while settings change, in bytes. Their replies fit
// inline with 4096 bytes, but not with 1024.
const smallRead = 2 << 10

// traffic makes READs on a connection until it is stopped.
type traffic struct {
	s     *session
	stop  context.CancelFunc
	ended sync.WaitGroup
	calls int   // answered; valid after ended, as is
	err   error // of the call that failed
}

func (d *demo) startTraffic(ctx context.Context) (*traffic, error) {
	s, err := d.dial(ctx, "echo", smallRead)
	if err != nil {
		return nil, err
	}
	// After an answer the connection is listed.
	if err := s.read(ctx, smallRead); err != nil {
		s.close()
		return nil, err
	}
	return s.traffic(ctx, 0), nil
}

// traffic begins to call, with a pause after each call.
func (s *session) traffic(ctx context.Context, pause time.Duration) *traffic {
	t := &traffic{s: s}
	calling, stop := context.WithCancel(ctx)
	t.stop = stop
	t.ended.Go(func() {
		for calling.Err() == nil && t.err == nil {
			// A call that has begun is finished, so that the stop loses no call.
			if t.err = s.read(context.WithoutCancel(ctx), smallRead); t.err == nil {
				t.calls++
			}
			select {
			case <-calling.Done():
			case <-time.After(pause):
			}
		}
	})
	return t
}

// end stops the calls. It may be called more than once.
func (t *traffic) end() {
	t.stop()
	t.ended.Wait()
	t.s.close()
}

// counters are the connection's counters from rdmactl.
type counters struct {
	Calls  uint64 `json:"calls"`
	Sends  uint64 `json:"sends"`
	Writes uint64 `json:"rdma_writes"`
	Errors uint64 `json:"errors"`
}

// tune changes inline.send_max during READs of 2 KiB and shows the effect.
func (d *demo) tune(ctx context.Context) error {
	d.title("Watch and tune the connection while READs of 2 KiB go on")
	t, err := d.startTraffic(ctx)
	if err != nil {
		return err
	}
	defer t.end()
	for _, step := range []struct {
		when   string
		writes bool
		then   [][]string // rdmactl
	}{
		{"at inline.send_max=4096", false, [][]string{{"connections", "list"}, {"settings", "set", "inline.send_max=1024"}}},
		{"at inline.send_max=1024", true, [][]string{{"connections", "list"}, {"settings", "set", "inline.send_max=unset"}}},
		{"with that taken back", false, nil},
	} {
		if err := d.during(ctx, step.when, step.writes); err != nil {
			return err
		}
		if err := d.each(ctx, step.then...); err != nil {
			return err
		}
	}
	t.end()
	if t.err != nil {
		return t.err
	}
	d.say("%d calls made, every one answered with the right bytes", t.calls)
	return nil
}

// during shows what about a thousand calls cost. It checks whether their data moves by RDMA
// Write.
func (d *demo) during(ctx context.Context, when string, writes bool) error {
	before, err := d.counters(ctx)
	if err != nil {
		return err
	}
	after := before
	for after.Calls < before.Calls+1000 {
		if after, err = d.counters(ctx); err != nil {
			return err
		}
		if after.Errors > 0 {
			return fmt.Errorf("%d errors on the connection", after.Errors)
		}
	}
	calls, moved := after.Calls-before.Calls, after.Writes-before.Writes
	d.say("%s: %d calls, %d sends, %d RDMA Writes", when, calls, after.Sends-before.Sends, moved)
	// The counters of one answer are not read at the same instant: one or two calls may
	// be counted on one side only.
	if wrong := writes && moved+2 < calls || !writes && moved > 2; wrong {
		return fmt.Errorf("%s: %d of %d calls moved their data by RDMA Write", when, moved, calls)
	}
	return nil
}

// counters returns the counters of the newest connection from rdmactl. The connection before
// it may still be ending.
func (d *demo) counters(ctx context.Context) (c counters, err error) {
	var answer struct{ Connections []counters }
	err = d.answer(ctx, &answer, "connections", "list")
	if err == nil && len(answer.Connections) == 0 {
		err = errors.New("no connection")
	}
	if err != nil {
		return c, fmt.Errorf("connections list: %w", err)
	}
	return answer.Connections[len(answer.Connections)-1], nil
}

// metrics shows some of the metrics that Prometheus reads.
func (d *demo) metrics(ctx context.Context) error {
	d.title("What Prometheus sees")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.daemon.Address("metrics")+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(body)) {
		for _, name := range []string{"rdmad_rpc_calls_total", "rdmad_rdma_reads_total", "rdmad_rdma_writes_total", "rdmad_sends_with_invalidate_total", "rdmad_settings_revision"} {
			if strings.HasPrefix(line, name) {
				d.say("%s", strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// summary prints what was demonstrated.
func (d *demo) summary(context.Context) error {
	fmt.Fprint(d.out, `
Shown:
   RPC-over-RDMA version 1 on soft-iWARP, without RDMA hardware: inline messages, RDMA Read, RDMA Write
   a file written and read back by NFSv3 over RDMA, the same on disk
   a live setting changed under load: data moved from inline to RDMA Write and back, no call lost
   a reload that names a port in use: refused whole, then in force by itself, no call lost
`)
	return nil
}
