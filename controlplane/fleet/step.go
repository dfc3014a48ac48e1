package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Step returns the next state of a rollout, or nil if all stay as they are. All Changes must
// have been written. wake is the time at which the next step is due even if nothing happens;
// zero means never.
func (v *View) Step(now time.Time) (next *Rollout, wake time.Time) {
	for _, ref := range slices.SortedFunc(maps.Keys(v.Rollouts), compareRefs) {
		r := v.Rollouts[ref]
		next, at := v.step(r, now)
		if next != nil {
			return next, time.Time{}
		}
		wake = earlier(wake, at)
	}
	return nil, wake
}

func (v *View) step(r *Rollout, now time.Time) (*Rollout, time.Time) {
	if !r.gives() {
		return v.returning(r, now), time.Time{}
	}
	if v.Policies[r.Ref] == nil {
		return nil, time.Time{} // as long as it can't be read
	}
	f, wake := v.judge(r, now)
	if f != nil {
		return r.halt(f, now), time.Time{}
	}
	next, at := v.forward(r, now)
	return next, earlier(wake, at)
}

// forward returns a rollout whose gates pass.
func (v *View) forward(r *Rollout, now time.Time) (*Rollout, time.Time) {
	i := slices.IndexFunc(r.Waves, func(w Wave) bool { return w.State == WaveApplying || w.State == WaveBaking })
	switch {
	case i >= 0 && r.Waves[i].State == WaveApplying:
		return v.applying(r, i, now)
	case i >= 0:
		return v.baking(r, i, now)
	case r.State == Running:
		return v.begin(r, now)
	}
	return nil, time.Time{}
}

// begin returns the rollout with its next wave, or done. The waves that have not begun are made
// of the nodes that are up now. It waits for the first report of each: the gates compare with it. A
// node that hangs before it halts the rollout.
func (v *View) begin(r *Rollout, now time.Time) (*Rollout, time.Time) {
	having := make(map[string]bool)
	for _, node := range r.begun() {
		having[node] = true
	}
	all := v.candidates(v.Policies[r.Ref], v.Base(r.Policy), r.Plan.Spread, having)
	var wake time.Time
	for _, c := range all {
		m := v.Members[c.name]
		if m.Reports[0] != nil {
			continue
		}
		f, late := r.Plan.silent(c.name, m, now)
		if f != nil {
			return r.halt(f, now), time.Time{}
		}
		wake = earlier(wake, late)
	}
	if !wake.IsZero() {
		return nil, wake
	}
	next := r.clone()
	next.Waves = slices.DeleteFunc(next.Waves, func(w Wave) bool { return !w.begun() })
	next.Waves = append(next.Waves, r.Plan.waves(MaxWaves-len(next.Waves), len(having), all)...)
	if i := slices.IndexFunc(next.Waves, func(w Wave) bool { return !w.begun() }); i >= 0 {
		next.Waves[i].State, next.Waves[i].Since = WaveApplying, now
		return next, time.Time{}
	}
	for node := range having {
		if m := v.Members[node]; m != nil && m.Up && !m.has() {
			return nil, time.Time{} // it has not read yet that the gates passed
		}
	}
	next.enter(Done, "", now)
	return next, time.Time{}
}

// applying waits until all nodes of a wave have the change.
func (v *View) applying(r *Rollout, i int, now time.Time) (*Rollout, time.Time) {
	w := &r.Waves[i]
	var waiting []string
	down := false
	for _, node := range w.Nodes {
		m := v.Members[node]
		lost, _ := m.lost(r.Plan, now)
		switch {
		case lost || m.Up && m.has():
		case m.Up:
			waiting = append(waiting, node)
		default:
			down = true
		}
	}
	until := w.Since.Add(r.Plan.ApplyWithin)
	switch {
	case len(waiting) == 0 && down:
		return nil, time.Time{}
	case len(waiting) == 0:
		next := r.clone()
		next.Waves[i].State, next.Waves[i].Since = WaveBaking, now
		return next, time.Time{}
	case !now.Before(until):
		return r.halt(&failure{waiting[0], fmt.Sprintf("not applied within %v: %s", r.Plan.ApplyWithin, Names(waiting))}, now), time.Time{}
	}
	return nil, until
}

// baking waits for the end of the bake, and for two reports of each node from then on.
func (v *View) baking(r *Rollout, i int, now time.Time) (*Rollout, time.Time) {
	w := &r.Waves[i]
	if until := w.Since.Add(r.Plan.Bake); now.Before(until) {
		return nil, until
	}
	for _, node := range w.Nodes {
		m := v.Members[node]
		if lost, _ := m.lost(r.Plan, now); !lost && (!m.Up || !m.reportedAfter(r.Changed)) {
			return nil, time.Time{}
		}
	}
	next := r.clone()
	next.Waves[i].State, next.Waves[i].Since = WaveDone, now
	return next, time.Time{}
}

// reportedAfter reports whether both reports are newer than a revision of etcd.
func (m *Member) reportedAfter(revision int64) bool {
	return m.has() && m.Reports[1] != nil && m.Reports[1].At > revision
}

// halt returns the rollout with its nodes on the way back.
func (r *Rollout) halt(f *failure, now time.Time) *Rollout {
	next := r.clone()
	next.takeBack(now)
	for i := range next.Waves {
		if slices.Contains(next.Waves[i].Nodes, f.node) {
			next.Waves[i].Reason = cutText(f.text)
		}
	}
	next.enter(Halted, f.text, now)
	return next
}

// returning notes waves whose nodes have what they had before. A node that is down takes the
// change back when it returns, or by its confirm window.
func (v *View) returning(r *Rollout, now time.Time) *Rollout {
	next := r.clone()
	changed, all := false, true
	for i := range next.Waves {
		w := &next.Waves[i]
		if w.State != WaveTakingBack {
			continue
		}
		back, down := v.back(r, w)
		if !back {
			all = false
			continue
		}
		w.State, w.Since, changed = WaveTakenBack, now, true
		if len(down) > 0 {
			w.Reason = cutText(strings.TrimPrefix(w.Reason+"; DOWN, takes it back when it returns: "+Names(down), "; "))
		}
	}
	if r.State == Halted && all {
		next.enter(RolledBack, r.Reason, now)
		return next
	}
	if !changed {
		return nil
	}
	return next
}

// back reports whether the nodes of a wave have what they are assigned, which is without the
// rollout's version; down are those that are not there.
func (v *View) back(r *Rollout, w *Wave) (back bool, down []string) {
	for _, node := range w.Nodes {
		m := v.Members[node]
		switch {
		case m == nil || !m.Up:
			down = append(down, node)
		case slices.Contains(m.Assigned.Policies, r.Ref) || !m.has():
			return false, nil
		}
	}
	return true, down
}
