package siege

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	budget "github.com/rdmad/rdmad/dataplane/descriptors"
)

// idleClients is how many clients the default configuration has places for, given the
// descriptors for them, as the systemd unit does.
const idleClients = 4096

// places is the same for the descriptors that there are here.
func places(t *testing.T) int {
	limit, err := budget.Limit()
	must(t, err)
	b, err := budget.Divide(limit, budget.Want{Served: 2, Control: 256, Metrics: 64})
	must(t, err)
	return min(idleClients, b.Connections())
}

// allowance is what rdmad may start for all of them together, in goroutines.
const allowance = 100

// TestIdleClients: all clients that the default configuration has places for, 4,096
// or as many as there are descriptors for, are served, each on a connection that is idle but for two NULLs. Each costs one
// goroutine then. docs/credits.md has the figures.
func TestIdleClients(t *testing.T) {
	t.Parallel()
	bin, dir := openDir(t), t.TempDir()
	rdmad := filepath.Join(bin, "rdmad")
	build(t, rdmad, "../../cmd/rdmad")
	d, err := startDaemon(rdmad, dir, &Attack{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	before := d.figures(t)
	clients := make([]*peer, places(t))
	must(t, each(clients, func(i int) (err error) {
		clients[i], err = dialPeer(t.Context(), fromMany(i), d.target.RDMA)
		return err
	}))
	for range 2 {
		must(t, each(clients, func(i int) error {
			_, err := clients[i].null()
			clients[i].buf = nil // as large as the largest segment
			return err
		}))
	}
	n := float64(len(clients))
	after := d.figures(t)
	again, deadline := time.Tick(time.Second), time.After(hung)
	for ; after.goroutines-before.goroutines > n+allowance; after = d.figures(t) {
		select {
		case <-again: // connections rest after 10 s
		case <-deadline:
			t.Fatalf("%.0f goroutines for %.0f clients", after.goroutines-before.goroutines, n)
		}
	}
	t.Logf("%d clients: %.1f goroutines, %.1f KiB of RSS, %.1f KiB of heap and stacks, and %.1f KiB registered for each", len(clients),
		(after.goroutines-before.goroutines)/n, (after.rss-before.rss)/n/1024, (after.heap-before.heap)/n/1024, (after.registered-before.registered)/n/1024)
	for _, c := range clients {
		c.conn.Close()
	}
	must(t, d.stop())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// each calls f for every client, from several goroutines.
func each(clients []*peer, f func(i int) error) error {
	const workers = 16
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < len(clients); i += workers {
				if err := f(i); err != nil {
					errs[w] = fmt.Errorf("client %d: %w", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// figures are the resources of rdmad. Memory is in bytes.
type figures struct{ goroutines, rss, heap, registered float64 }

func (d *daemon) figures(t *testing.T) (f figures) {
	c := scraper(t.Context(), fromOne)
	defer c.CloseIdleConnections()
	page, err := scrape(t.Context(), c, d.target.Metrics)
	must(t, err)
	for line := range strings.Lines(string(page)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, _ := strconv.ParseFloat(text, 64)
		switch name, _, _ := strings.Cut(name, "{"); name {
		case "go_goroutines":
			f.goroutines = v
		case "process_resident_memory_bytes":
			f.rss = v
		case "go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes":
			f.heap += v
		case "rdmad_memory_taken_bytes":
			f.registered += v
		}
	}
	return f
}
