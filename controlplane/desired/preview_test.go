package desired_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// A preview of the fleet's layer has the effects that Assign has, and changes nothing, also
// while a revision waits to be confirmed.
func TestPreviewFleet(t *testing.T) {
	store, plane := start(t)
	if _, err := store.Set(change(t, "global", live.CreditsMax, 7), desired.Options{ConfirmWithin: time.Hour}); err != nil {
		t.Fatal(err)
	}
	applied, revision := plane.Applied(), store.Revision()
	p, err := store.PreviewFleet(assigned(t, 40, "global", live.InlineSendMax, 2048, live.CreditsMax, 9))
	if err != nil || effects(p.Effects) != "1 applied\n2 applied\n3 applied" || len(p.Changes) != 1 ||
		p.Changes[0] != (settings.Difference{Place: "global", Key: live.InlineSendMax, Before: "4096", After: "2048"}) ||
		len(p.Pins) != 1 || p.Pins[0].String() != "global: credits.max is 7, policy small@3 gives 9" {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := store.PreviewFleet(assigned(t, 40, "listener/other", live.CreditsMax, 9)); !errors.As(err, new(*settings.NotFoundError)) {
		t.Error(err)
	}
	if _, err := store.PreviewFleet(assigned(t, 40, "global", live.CreditsMax, 0)); !errors.As(err, new(*settings.InvalidError)) {
		t.Error(err)
	}
	if f, pins := store.Fleet(); f.Assignment != 0 || len(f.Scopes)+len(pins) != 0 || plane.Applied() != applied || store.Revision() != revision {
		t.Errorf("%+v, %d pins, revision %d", f, len(pins), store.Revision())
	}
	must(t, store.Close())
	if _, err := store.PreviewFleet(settings.FleetLayer{}); !errors.Is(err, watch.ErrShutdown) {
		t.Error(err)
	}
}
