package siege

import (
	"errors"
	"flag"
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

// idle may ask for more clients, up to 10,000: docs/scale.md has the limits for them.
var idle = flag.Int("idle", idleClients, "TestIdleClients' clients")

// scaled returns the limits for the clients: for more than the default, those of docs/scale.md.
func scaled() (a Attack, memory int64) {
	if *idle <= idleClients {
		return a, 0
	}
	return Attack{Connections: *idle}, 2 << 30
}

// places returns how many of the clients the descriptors here allow.
func places(t *testing.T) int {
	limit, err := budget.Limit()
	must(t, err)
	b, err := budget.Divide(limit, budget.Want{Served: 2, Control: 256, Metrics: 64})
	must(t, err)
	if b.Connections() < *idle && *idle > idleClients {
		t.Fatalf("there are descriptors for %d clients", b.Connections())
	}
	return min(*idle, b.Connections())
}

// mostEach is what each of them may cost at rest, in bytes of objects and stacks, once rdmad
// has collected what the calls left.
const mostEach = 16 << 10

// mostKept is how much unused heap rdmad may keep for each of them then, in bytes. The rest
// goes back to the kernel. It is next to nothing.
const mostKept = 1 << 10

// allowance is what rdmad may start for all of them together, in goroutines.
const allowance = 100

// TestIdleClients: all clients that the default configuration has places for, 4,096
// or as many as there are descriptors for, are served, each on a connection that is idle but for two NULLs. Each costs no
// goroutine then, and little memory, because rdmad gives back what it needed while it was busy. docs/scale.md has the figures.
func TestIdleClients(t *testing.T) {
	t.Parallel()
	bin, dir := openDir(t), t.TempDir()
	rdmad := filepath.Join(bin, "rdmad")
	build(t, rdmad, "../../cmd/rdmad")
	a, memory := scaled()
	d, err := startDaemon(rdmad, dir, &a, memory)
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
	again, deadline := time.Tick(5*time.Second), time.After(hung+hung/2) // a scrape is work
	rests := func() bool {
		return after.goroutines-before.goroutines <= allowance &&
			(len(clients) < idleClients || after.live-before.live <= n*mostEach && after.kept <= n*mostKept)
	}
	for ; !rests(); after = d.figures(t) {
		select {
		case <-again: // connections rest after 10 s, and rdmad some 15 s later
		case <-deadline:
			t.Fatalf("%.0f goroutines, %.0f bytes of objects and stacks, and %.0f bytes of unused heap, for %.0f clients", after.goroutines-before.goroutines, after.live-before.live, after.kept, n)
		}
	}
	t.Logf("%d clients: %.1f goroutines, %.1f KiB of RSS, %.1f KiB of objects and stacks, %.1f KiB with the unused parts of heap spans, and %.1f KiB registered for each; %.0f MiB of RSS and %d files in all", len(clients),
		(after.goroutines-before.goroutines)/n, (after.rss-before.rss)/n/1024, (after.live-before.live)/n/1024, (after.heap-before.heap)/n/1024, (after.registered-before.registered)/n/1024,
		after.rss/(1<<20), d.descriptors())
	if files := d.descriptors(); files > len(clients)+allowance {
		t.Errorf("%d files are open for %d clients", files, len(clients))
	}
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

// figures are the resources of rdmad. Memory is in bytes. live is that of objects and stacks,
// heap the same with the unused parts of heap spans. kept is unused heap that the kernel does
// not have back.
type figures struct{ goroutines, rss, live, heap, kept, registered float64 }

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
		case "go_memstats_heap_alloc_bytes":
			f.live += v
		case "go_memstats_heap_inuse_bytes":
			f.heap += v
		case "go_memstats_stack_inuse_bytes":
			f.live += v
			f.heap += v
		case "go_memstats_heap_idle_bytes":
			f.kept += v
		case "go_memstats_heap_released_bytes":
			f.kept -= v
		case "rdmad_memory_taken_bytes":
			f.registered += v
		}
	}
	return f
}
