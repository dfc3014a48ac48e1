package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/nfstest"
)

// threads is the number of this process's threads.
func (p *patient) threads() int {
	p.t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	p.must(err)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "Threads:"); ok {
			count, err := strconv.Atoi(strings.TrimSpace(n))
			p.must(err)
			return count
		}
	}
	p.t.Fatal("no number of threads")
	return 0
}

// The file system of an export hangs. More calls come than may be in it: they wait without a
// thread. The other export goes on. When the file system answers again, all calls end well.
func TestHungExportCondition(t *testing.T) {
	const (
		clients, each = 12, 40
		mostInside    = 256
	)
	dir := t.TempDir()
	slow, disk := filepath.Join(dir, "slow"), filepath.Join(dir, "disk")
	makeDirectory(t, slow)
	makeDirectory(t, disk)
	fs := have(mountHung(slow))(t)
	defer func() {
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("served", func(t *testing.T) { // all is closed before the file system
		p := admit(t, dir, `
services: [{name: both, nfs: {exports: [{path: DIR/slow}, {path: DIR/disk}]}}]
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: both}]
`)
		p.expect("both:"+slow, conditions.ExportServed)
		p.expect("both:"+disk, conditions.ExportServed)
		provider := newProvider(t)
		other := p.nfsClient(provider, "127.0.0.1", 0)
		fine, err := other.Mount(t.Context(), disk)
		p.must(err)
		root, err := other.Mount(t.Context(), slow)
		p.must(err)
		before := p.threads()

		var all []nfstest.Files
		for range clients {
			c := p.nfsClient(provider, "127.0.0.1", 0)
			p.must(c.Getattr(t.Context(), fine)) // its reply grants credits
			all = append(all, c)
		}
		p.must(fs.Hang())
		defer fs.Heal()
		var calls sync.WaitGroup
		for _, c := range all {
			for range each {
				calls.Go(func() {
					if err := c.Getattr(t.Context(), root); err != nil {
						t.Errorf("a call that waited: %v", err)
					}
				})
			}
		}
		deadline := time.Now().Add(time.Minute)
		for p.data.Stats()[0].InFlight < clients*each {
			if <-time.After(time.Millisecond); time.Now().After(deadline) {
				t.Fatalf("%d calls are in flight", p.data.Stats()[0].InFlight)
			}
		}
		p.expect("both:"+slow, conditions.ExportNoAnswer)
		if n, err := fs.Waiting(); err != nil || n < mostInside || n > mostInside+16 {
			t.Errorf("%d requests wait in the file system, %v", n, err)
		}
		if n := p.threads(); n > before+mostInside+32 {
			t.Errorf("%d threads, %d before", n, before)
		}
		p.goesOn(other, fine)
		p.expect("both:"+disk, conditions.ExportServed)

		p.must(fs.Heal())
		calls.Wait()
		p.expect("both:"+slow, conditions.ExportServed)
		p.well()
	})
}

// goesOn uses an export.
func (p *patient) goesOn(c nfstest.Files, root []byte) {
	p.t.Helper()
	_, err := c.Create(p.t.Context(), root, "while the other one hangs")
	p.must(err)
}
