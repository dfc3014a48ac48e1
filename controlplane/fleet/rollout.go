package fleet

import (
	"fmt"
	"slices"
	"time"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// RolloutState is the state of a rollout.
type RolloutState uint8

// The states of a rollout.
const (
	Running    RolloutState = iota
	Paused                  // begins no wave
	Done                    // in force on all nodes that the policy selects
	Halted                  // a gate failed: the nodes take the change back
	RolledBack              // they have
	Aborted                 // by an operator: the nodes take the change back
	NumRolloutStates
)

var rolloutStates = [NumRolloutStates]string{"RUNNING", "PAUSED", "DONE", "HALTED", "ROLLED_BACK", "ABORTED"}

// String names the state.
func (s RolloutState) String() string { return rolloutStates[s] }

// Active reports whether another rollout has to wait for one in this state.
func (s RolloutState) Active() bool { return s == Running || s == Paused || s == Halted }

// Ended reports whether a rollout in this state never leaves it.
func (s RolloutState) Ended() bool { return !s.Active() }

// WaveState is the state of a wave.
type WaveState uint8

// The states of a wave.
const (
	WavePending    WaveState = iota // not begun
	WaveApplying                    // its nodes are assigned the revision, for a confirm window
	WaveBaking                      // all of them have it; the gates watch them
	WaveDone                        // the gates passed; the nodes keep the revision
	WaveTakingBack                  // its nodes are assigned what they had
	WaveTakenBack                   // they have it again
	NumWaveStates
)

var waveStates = [NumWaveStates]string{"PENDING", "APPLYING", "BAKING", "DONE", "TAKING_BACK", "TAKEN_BACK"}

// String names the state.
func (s WaveState) String() string { return waveStates[s] }

// Wave is the nodes that a rollout changes together.
type Wave struct {
	Nodes  []string
	State  WaveState
	Reason string    // why it is taken back, or which nodes were left out
	Since  time.Time // of the state; zero while it is pending
}

// begun reports whether the wave changed nodes.
func (w *Wave) begun() bool { return w.State != WavePending }

// Rollout brings one version of a policy to its nodes. The version names it.
type Rollout struct {
	Ref
	State  RolloutState
	Reason string // why it was halted, paused or aborted
	Waves  []Wave
	Plan   *Plan // nil if all nodes had it at once
	Author string
	// Previous is the policy's revision that was in force when it began; 0 for none.
	Previous uint32
	Began    time.Time
	Ended    time.Time // zero while it is active
	// Changed is the revision of etcd at which it was last written.
	Changed int64
}

// Bounds of rollouts.
const (
	MaxWaves  = 32
	maxReason = 1024 // bytes
)

// Check refuses a rollout that is outside of the bounds.
func (r *Rollout) Check() error {
	if text := NameProblem(r.Policy); text != "" || r.Revision == 0 {
		return live.Invalid("policy", "%s is not NAME@REVISION", r.Ref)
	}
	if len(r.Waves) > MaxWaves {
		return live.Invalid("waves", "no more than %d waves (there are %d)", MaxWaves, len(r.Waves))
	}
	n := 0
	for i := range r.Waves {
		n += len(r.Waves[i].Nodes)
		for _, node := range r.Waves[i].Nodes {
			if text := NameProblem(node); text != "" {
				return live.Invalid("nodes", "%s", text)
			}
		}
	}
	if n > MaxNodes {
		return live.Invalid("nodes", "no more than %d nodes (there are %d)", MaxNodes, n)
	}
	if r.Plan == nil {
		return nil
	}
	return r.Plan.Check()
}

// clone is a copy whose waves can be changed.
func (r *Rollout) clone() *Rollout {
	c := *r
	c.Waves = slices.Clone(r.Waves)
	return &c
}

// gives reports whether the rollout's version is to be in force on the nodes of waves that have
// begun.
func (r *Rollout) gives() bool { return r.State == Running || r.State == Paused }

// begun lists the nodes of waves that have begun.
func (r *Rollout) begun() (nodes []string) {
	for i := range r.Waves {
		if r.Waves[i].begun() {
			nodes = append(nodes, r.Waves[i].Nodes...)
		}
	}
	return nodes
}

// NotAfter lets waves begin no later than now. The clock of the controller that wrote them may
// have been ahead, and a wave would last longer by the difference.
func (r *Rollout) NotAfter(now time.Time) {
	for i := range r.Waves {
		if w := &r.Waves[i]; w.Since.After(now) {
			w.Since = now
		}
	}
}

// enter changes the state.
func (r *Rollout) enter(s RolloutState, reason string, now time.Time) {
	r.State, r.Reason = s, cutText(reason)
	if s.Ended() {
		r.Ended = now
	}
}

// takeBack has the nodes of all waves that have begun take the change back.
func (r *Rollout) takeBack(now time.Time) {
	for i := range r.Waves {
		if w := &r.Waves[i]; w.begun() {
			w.State, w.Since = WaveTakingBack, now
		}
	}
}

// Text returns the state in one line.
func (r *Rollout) Text() string {
	text := "rollout " + r.String() + ": " + r.State.String()
	if r.State == Aborted && r.Settled() {
		text += ", taken back"
	}
	if r.Reason != "" {
		text += " (" + r.Reason + ")"
	}
	return text
}

// Settled reports whether the rollout has ended and no node still takes its change back.
func (r *Rollout) Settled() bool {
	return r.State.Ended() && !slices.ContainsFunc(r.Waves, func(w Wave) bool { return w.State == WaveTakingBack })
}

// Progress describes in a few words how far the rollout is.
func (r *Rollout) Progress() string {
	if len(r.Waves) == 0 {
		return "no waves"
	}
	at := len(r.Waves) - 1
	for at > 0 && !r.Waves[at].begun() {
		at--
	}
	return fmt.Sprintf("%d of %d %s", at+1, len(r.Waves), r.Waves[at].State)
}

// cutText bounds a reason.
func cutText(s string) string { return atMost(s, maxReason) }

// StateError refuses an action that a rollout's state does not allow.
type StateError struct {
	Rollout Ref
	State   RolloutState
	Verb    string
}

func (e *StateError) Error() string {
	return fmt.Sprintf("rollout %s is %s and can't be %s", e.Rollout, e.State, e.Verb)
}

// Pause returns the rollout with no further waves until Resume. The nodes of the wave that is
// under way keep the change, if the gates pass.
func (r *Rollout) Pause(by string, now time.Time) (*Rollout, error) {
	if r.State != Running {
		return nil, &StateError{r.Ref, r.State, "paused"}
	}
	next := r.clone()
	next.enter(Paused, "paused"+byWhom(by), now)
	return next, nil
}

// Resume returns the rollout with its further waves.
func (r *Rollout) Resume(_ string, now time.Time) (*Rollout, error) {
	if r.State != Paused {
		return nil, &StateError{r.Ref, r.State, "resumed"}
	}
	next := r.clone()
	next.enter(Running, "", now)
	return next, nil
}

// Abort ends the rollout. Its nodes take the change back. A rollout that is halted gives up
// waiting for nodes that don't.
func (r *Rollout) Abort(by string, now time.Time) (*Rollout, error) {
	if !r.State.Active() {
		return nil, &StateError{r.Ref, r.State, "aborted"}
	}
	next, reason := r.clone(), "aborted"+byWhom(by)
	if r.State == Halted {
		reason += "; before: " + r.Reason
	} else {
		next.takeBack(now)
	}
	next.enter(Aborted, reason, now)
	return next, nil
}

func byWhom(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}
