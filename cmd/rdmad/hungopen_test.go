package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestHungExportIsNotOpened: what would open an export whose file system hangs fails, and leaves one
// goroutine behind, which ends when the file system answers. Another export is not to blame.
func TestHungExportIsNotOpened(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	defer r.end()
	hung := filepath.Join(dir, "hung")
	must(t, unix.Mkfifo(hung, 0o600)) // opening it waits for a writer, as for a file server
	disk := spec.Service{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: hung}}}
	well := filepath.Join(dir, "well")
	makeDirectory(t, well)
	next := r.parse("")
	next.Services = append(next.Services, disk, spec.Service{Name: "well", NFS: &spec.NFS{Export: spec.Export{Path: well}}})
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := r.manager.Services.Add(ctx, disk)
		if !errors.As(err, new(*manager.OpenError)) || !strings.HasSuffix(err.Error(), hung+" does not answer") {
			t.Errorf("an addition: %v", err)
		}
		_, err = r.prepare(ctx, next, 0)
		if err == nil || !strings.HasSuffix(err.Error(), hung+" does not answer") || strings.Contains(err.Error(), well) {
			t.Errorf("a reload: %v", err)
		}
		cancel()
	}
	r.services.mu.Lock()
	answered := r.services.asked[hung]
	r.services.mu.Unlock()
	f, err := os.OpenFile(hung, os.O_WRONLY, 0)
	must(t, err)
	must(t, f.Close())
	<-answered
	must(t, os.Remove(hung))
	makeDirectory(t, hung)
	_, err = r.manager.Services.Add(t.Context(), disk)
	must(t, err)
}

// TestExportThatHangsWhileItIsOpened: a change gives up, and other changes are made. The next change of the same
// export starts no second open.
func TestExportThatHangsWhileItIsOpened(t *testing.T) {
	dir := t.TempDir()
	hung, well := filepath.Join(dir, "hung"), filepath.Join(dir, "well")
	makeDirectory(t, hung)
	makeDirectory(t, well)
	fs := have(mountHung(hung))(t)
	defer func() { must(t, fs.Close()) }()
	t.Run("served", func(t *testing.T) { // all is closed before the file system
		r := startHere(t, dir, "")
		defer r.end()
		defer fs.Heal()
		disk := spec.Service{Name: "disk", NFS: &spec.NFS{Export: spec.Export{Path: hung}}}
		next := r.parse("")
		next.Services = append(next.Services, disk)
		for i, change := range []func(ctx context.Context) error{
			func(ctx context.Context) error {
				_, err := r.manager.Services.Add(ctx, disk)
				return err
			},
			func(ctx context.Context) error {
				_, err := r.prepare(ctx, next, 0)
				return err
			},
		} {
			must(t, fs.HangStatfs())
			ctx, cancel := context.WithCancel(t.Context())
			made := make(chan error, 1)
			go func() { made <- change(ctx) }()
			for n := 0; n == 0; <-time.After(time.Millisecond) {
				var err error
				n, err = fs.Waiting()
				must(t, err)
			}
			if i > 0 {
				must(t, fs.Hang()) // nothing can be read any more to find out why
			}
			cancel()
			select {
			case err := <-made:
				if err == nil || !strings.HasSuffix(err.Error(), "the file system of "+hung+" does not answer") {
					t.Errorf("change %d: %v", i, err)
				}
			case <-time.After(time.Minute):
				t.Fatalf("change %d waits for the file system", i)
			}
			if i > 0 {
				break
			}
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
			if err := change(ctx); err == nil || !strings.HasSuffix(err.Error(), "the file system of "+hung+" does not answer") {
				t.Errorf("once more: %v", err)
			}
			cancel()
			if n := have(fs.Waiting())(t); n != 1 {
				t.Errorf("%d requests wait", n)
			}
			r.services.mu.Lock()
			ended := r.services.asked[hung]
			r.services.mu.Unlock()
			must(t, fs.Heal())
			if ended != nil {
				<-ended
			}
		}
		_, err := r.manager.Services.Add(t.Context(), spec.Service{Name: "well", NFS: &spec.NFS{Export: spec.Export{Path: well}}})
		must(t, err)
		must(t, fs.Heal())
		_, err = r.manager.Services.Add(t.Context(), disk)
		must(t, err)
	})
}
