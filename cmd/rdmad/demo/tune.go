package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// smallRead is the size of the READs while settings change: their replies fit
// inline at 4096 bytes, and don't at 1024.
const smallRead = 2 << 10

// traffic is a connection on which READs go on until it is stopped.
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
	// With an answer the connection is listed.
	if err := s.read(ctx, smallRead); err != nil {
		s.close()
		return nil, err
	}
	t := &traffic{s: s, calls: 1}
	ctx, t.stop = context.WithCancel(ctx)
	t.ended.Go(func() {
		for ctx.Err() == nil && t.err == nil {
			// A call begun is let finish, so that none is lost to the stop.
			if t.err = s.read(context.WithoutCancel(ctx), smallRead); t.err == nil {
				t.calls++
			}
		}
	})
	return t, nil
}

// end stops the calls. It may be called again.
func (t *traffic) end() {
	t.stop()
	t.ended.Wait()
	t.s.close()
}

// counters are what rdmactl says of the connection.
type counters struct {
	Calls  uint64 `json:"calls"`
	Sends  uint64 `json:"sends"`
	Writes uint64 `json:"rdma_writes"`
	Errors uint64 `json:"errors"`
}

// tune changes inline.send_max while READs of 2 KiB go on, and shows what
// that does to them.
func (d *demo) tune(ctx context.Context) error {
	d.title("Watch and tune the connection while READs of 2 KiB go on")
	t, err := d.startTraffic(ctx)
	if err != nil {
		return err
	}
	defer t.end()
	if err := d.during(ctx, "at inline.send_max=4096", false); err != nil {
		return err
	}
	if err := d.rdmactl(ctx, "connections", "list"); err != nil {
		return err
	}
	if err := d.rdmactl(ctx, "settings", "set", "inline.send_max=1024"); err != nil {
		return err
	}
	if err := d.during(ctx, "at inline.send_max=1024", true); err != nil {
		return err
	}
	if err := d.rdmactl(ctx, "connections", "list"); err != nil {
		return err
	}
	if err := d.rdmactl(ctx, "settings", "set", "inline.send_max=unset"); err != nil {
		return err
	}
	if err := d.during(ctx, "with that taken back", false); err != nil {
		return err
	}
	t.end()
	if t.err != nil {
		return t.err
	}
	d.say("%d calls made, every one answered with the right bytes", t.calls)
	return nil
}

// during counts what a thousand calls and more cost, and checks that their
// data moves by RDMA Write or does not.
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
	// The counters of one answer are not read at one instant: a call or two
	// may be counted on one side only.
	if wrong := writes && moved+2 < calls || !writes && moved > 2; wrong {
		return fmt.Errorf("%s: %d of %d calls moved their data by RDMA Write", when, moved, calls)
	}
	return nil
}

// counters asks rdmactl for those of the connection made last; the one before
// may still be going down.
func (d *demo) counters(ctx context.Context) (c counters, err error) {
	out, err := d.ask(ctx, "connections", "list", "-o", "json")
	if err != nil {
		return c, err
	}
	var answer struct{ Connections []counters }
	if err := json.Unmarshal(out, &answer); err != nil {
		return c, fmt.Errorf("connections list: %w", err)
	}
	if len(answer.Connections) == 0 {
		return c, fmt.Errorf("connections list: no connection in %s", out)
	}
	return answer.Connections[len(answer.Connections)-1], nil
}

// metrics shows some of what Prometheus scrapes.
func (d *demo) metrics(ctx context.Context) error {
	d.title("What Prometheus sees")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.daemon.addresses["metrics"]+"/metrics", nil)
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

// summary says what was shown.
func (d *demo) summary() {
	fmt.Fprint(d.out, `
Shown:
   RPC-over-RDMA version 1 on soft-iWARP, without RDMA hardware: inline messages, RDMA Read, RDMA Write
   a file written and read back by NFSv3 over RDMA, the same on disk
   a live setting changed under load: data moved from inline to RDMA Write and back, no call lost
`)
}
