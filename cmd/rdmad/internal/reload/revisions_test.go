package reload

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestWaitsForConfirm: a file that changes within a confirm window is applied as soon as the
// window ends.
func TestWaitsForConfirm(t *testing.T) {
	for name, end := range map[string]func(*desired.Store) error{
		"confirmed": func(s *desired.Store) error { return s.Confirm(1) },
		"rolled back": func(s *desired.Store) error {
			_, err := s.Rollback(0, desired.Options{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, echo)
			c := settings.Change{}
			c.Set.Set(live.DDPMinChunk, 0)
			if _, err := r.store.Set(c, desired.Options{ConfirmWithin: time.Hour}); err != nil {
				t.Fatal(err)
			}
			r.write(echo + "settings: {inline: {send_max: 2048}}\n")
			r.log("revision 1 waits to be confirmed until ")
			if err := end(r.store); err != nil {
				t.Fatal(err)
			}
			r.log("services 1 -> 1", "configuration reloaded")
			if got := r.sendMax(); got != "2048 config rdmad.yaml:2" {
				t.Errorf("inline.send_max %s", got)
			}
			if err := r.store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRevisionsThatDoNotMatter: a file that conflicts with stored settings is not reloaded for revisions after which
// it still does.
func TestRevisionsThatDoNotMatter(t *testing.T) {
	r := start(t, echo)
	set := func(k settings.Key, value uint32) {
		t.Helper()
		c := settings.Change{}
		c.Set.Set(k, value)
		if _, err := r.store.Set(c, desired.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	set(live.CreditsMin, 20)
	r.write(echo + "settings: {credits: {max: 10}}\n")
	r.log("credits.min 20 (global) would be above credits.max 10 (config)")
	for i := range 10 {
		set(live.InlineSendMax, 2048+uint32(i))
	}
	set(live.CreditsMin, 15) // another conflict
	r.log("credits.min 15 (global) would be above credits.max 10 (config)")
	set(live.CreditsMin, 5)
	r.log("services 1 -> 1", "configuration reloaded")
}

// TestConflictingConnectionEnds: a file that conflicts with the settings of a connection is reloaded when that has
// ended, which is no revision.
func TestConflictingConnectionEnds(t *testing.T) {
	r := start(t, echo)
	r.plane.Connect(planetest.Peer{ID: "7", Listener: "nfs", Address: "192.0.2.1:1"})
	c := settings.Change{Scope: settings.Scope{Kind: settings.Connection, Name: "7"}}
	c.Set.Set(live.CreditsMin, 20)
	if _, err := r.store.Set(c, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	r.write(echo + "settings: {credits: {max: 10}}\n")
	r.log("credits.min 20 (connection/7) would be above credits.max 10 (config)")
	r.store.Ended("7")
	r.log("services 1 -> 1", "configuration reloaded")
}

// TestMissedRevisions: a file that waits is reloaded also if more revisions come at once than wait for the reloader.
func TestMissedRevisions(t *testing.T) {
	text := []byte(echo + "settings: {credits: {max: 10}}\n")
	file := filepath.Join(t.TempDir(), "rdmad.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 8 { // the reloader may see some of the revisions before it sees that it misses others
		store := newStore(t)
		set := func(k settings.Key, value uint32) {
			c := settings.Change{}
			c.Set.Set(k, value)
			if _, err := store.Set(c, desired.Options{}); err != nil {
				t.Fatal(err)
			}
		}
		refused, applied, demand := make(chan struct{}), make(chan struct{}), make(chan os.Signal)
		r := New(Config{
			Running: &config.Config{File: file, Text: text}, Settings: store, Logger: slog.New(slog.DiscardHandler),
			Load:    func() (*config.Config, error) { return config.Load(file, config.Options{}) },
			Prepare: func(*config.Config) (Prepared, error) { return nothing{}, nil },
			Refused: func(error) {
				refused <- struct{}{}
				refused <- struct{}{}
			},
			Applied: func(*config.Config, []string) { close(applied) }, Began: func() {}, Ended: func() {},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Run(ctx, demand)
		}()
		set(live.CreditsMin, 20)
		demand <- syscall.SIGHUP
		<-refused
		for i := range 1100 { // 1024 wait
			set(live.InlineSendMax, 2048+uint32(i))
		}
		set(live.CreditsMin, 5)
		<-refused
		select {
		case <-applied:
		case <-time.After(30 * time.Second):
			t.Error("the file is not reloaded")
		}
		cancel()
		<-done
		if t.Failed() {
			return
		}
	}
}

// nothing is a version of the file that needs nothing.
type nothing struct{}

func (nothing) Commit()  {}
func (nothing) Discard() {}
