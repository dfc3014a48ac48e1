package desired

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Bounds of options.
const (
	ConfirmLeast = time.Second
	ConfirmMost  = 24 * time.Hour
	MaxComment   = 512 // bytes
	maxActor     = 256 // bytes of each part; what is longer is cut
)

// Options are the options and the author of a change.
type Options struct {
	// DryRun computes the result and changes nothing.
	DryRun bool
	// ConfirmWithin, if not 0, rolls the change back unless it is confirmed in time. It is
	// between ConfirmLeast and ConfirmMost.
	ConfirmWithin time.Duration
	// Expected, if not nil, is the revision at which the caller decided on a rollback or a
	// load. For Set it is in the change.
	Expected *uint32
	Actor    history.Actor
	Comment  string
	// Elements, if not nil, is stored together with the change, even if the settings stay. See
	// statefile.Record.
	Elements json.RawMessage
}

// Result is the effect of a change, or of a dry run.
type Result struct {
	Revision uint32 // after the change; the present one after a dry run
	Effects  []Effect
	// Step is the change, at the scopes and in the file's layer.
	Step settings.Step
	// Unchanged means that nothing changed, so that no revision was made.
	Unchanged bool
	// ConfirmDeadline is the end of the confirm window. It is zero without a window and after a
	// dry run.
	ConfirmDeadline time.Time
}

func (o *Options) check() error {
	var bad []settings.Violation
	if c := o.ConfirmWithin; c != 0 && (c < ConfirmLeast || c > ConfirmMost) {
		bad = append(bad, settings.Violation{
			Field: "confirm_within", Text: fmt.Sprintf("must be between %v and %v (is %v)", ConfirmLeast, ConfirmMost, c),
		})
	}
	if len(o.Comment) > MaxComment || !utf8.ValidString(o.Comment) {
		bad = append(bad, settings.Violation{
			Field: "comment", Text: fmt.Sprintf("must be text of at most %d bytes (is %d)", MaxComment, len(o.Comment)),
		})
	}
	if bad != nil {
		return &settings.InvalidError{Violations: bad}
	}
	return nil
}

// actor is who it is, within bounds.
func (o *Options) actor() history.Actor {
	return history.Actor{Name: cut(o.Actor.Name), From: cut(o.Actor.From)}
}

func cut(s string) string {
	if len(s) <= maxActor {
		return s
	}
	return strings.ToValidUTF8(s[:maxActor], "")
}
