package main

import (
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestUnsetWhatWaits: a change that waits to be confirmed can't be unset. After its window only a start of rdmad
// ends it, and the error says so.
func TestUnsetWhatWaits(t *testing.T) {
	for want, left := range map[string]time.Duration{
		"revision 1 waits to be confirmed until ": time.Hour,
		": rdmad takes it back when it starts; ":  -time.Hour,
	} {
		s := have(openState(t.TempDir()))(t)
		defer s.close()
		must(t, statefile.Create(s.settings(), settings.FileLayer{}))
		f, _, err := statefile.Open(s.settings())
		if err != nil {
			t.Fatal(err)
		}
		var d settings.Delta
		d.After.Values.Set(live.DDPMinChunk, 9)
		d.After.Set[live.DDPMinChunk] = 1
		e := &history.Entry{Revision: 1, Status: history.Pending, Deadline: time.Now().Add(left), Step: settings.Step{Deltas: []settings.Delta{d}}}
		must(t, f.Commit(&statefile.Record{Entry: e}))
		f.Close()
		_, err = s.unset(&history.Entry{Unset: settings.KeySet(0).With(live.DDPMinChunk)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", left, err)
		}
	}
}
