package desired_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// crashEnv names the state file for a process that is to be killed.
const crashEnv = "RDMAD_TEST_CRASH"

// changeForEver makes changes whose value is their revision, and confirms
// each; it prints what was answered. It ends when it is killed, or with the
// process that reads from it.
func changeForEver(path string) {
	check := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(3)
		}
	}
	store, err := desired.New(&planetest.Plane{}, slog.New(slog.DiscardHandler), new(rpcrdma.DefaultSettings()), 0)
	check(err)
	_, err = store.Open(path, settings.FileLayer{})
	check(err)
	if p := store.Pending(); p != nil {
		check(store.Confirm(p.Revision))
	}
	for {
		c := settings.Change{}
		c.Set.Set(live.DDPMinChunk, store.Revision()+1)
		r, err := store.Set(c, desired.Options{ConfirmWithin: time.Hour})
		check(err)
		if _, err := fmt.Println("set", r.Revision); err != nil {
			os.Exit(3)
		}
		check(store.Confirm(r.Revision))
		if _, err := fmt.Println("confirmed", r.Revision); err != nil {
			os.Exit(3)
		}
	}
}

// TestKilled: what was answered is there after the process was killed at any
// moment, and of what was not answered all or nothing.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	r := rand.New(rand.NewPCG(20, 4))
	set, confirmed := uint32(0), uint32(0)
	for round := range 12 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashEnv+"="+path)
		out := have(cmd.StdoutPipe())(t)
		must(t, cmd.Start())
		left := r.IntN(40) // answers before it is killed, while it goes on
		for lines := bufio.NewScanner(out); lines.Scan(); left-- {
			if left == 0 {
				cmd.Process.Kill()
			}
			switch line := lines.Text(); {
			case strings.HasPrefix(line, "set "):
				fmt.Sscan(line[4:], &set)
			case strings.HasPrefix(line, "confirmed "):
				fmt.Sscan(line[10:], &confirmed)
			default:
				t.Fatalf("round %d: %s", round, line)
			}
		}
		cmd.Wait()
		store, _ := open(t, path, settings.FileLayer{})
		at := store.Revision()
		if at != set && at != set+1 {
			t.Fatalf("round %d: revision %d, answered was %d", round, at, set)
		}
		if at > 0 {
			v := have(store.Get(settings.Scope{}))(t)
			e := store.History(0, 1)[0]
			if got := v.Values.Format(live.DDPMinChunk); got != fmt.Sprint(at) || e.Revision != at {
				t.Fatalf("round %d: revision %d says %s, history %+v", round, at, got, e)
			}
			if e.Status != history.Confirmed && e.Revision == confirmed {
				t.Fatalf("round %d: revision %d was confirmed, and is %s", round, at, e.Status)
			}
			set = at
		}
		closeStore(t, store)
	}
	if confirmed < 12 {
		t.Errorf("only %d revisions in all rounds", confirmed)
	}
}
