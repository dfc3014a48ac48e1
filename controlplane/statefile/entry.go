package statefile

import (
	"time"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// entryText is an entry of the history; its revision is the key.
type entryText struct {
	Time     time.Time         `json:"time"`
	Actor    string            `json:"actor,omitempty"`
	From     string            `json:"from,omitempty"`
	Comment  string            `json:"comment,omitempty"`
	Kind     string            `json:"kind"`
	Status   string            `json:"status"`
	Deadline time.Time         `json:"deadline,omitzero"`
	Scope    string            `json:"scope"`
	Set      map[string]string `json:"set,omitempty"`
	Unset    []string          `json:"unset,omitempty"`
	Target   uint32            `json:"target,omitempty"`
	Deltas   []deltaText       `json:"deltas,omitempty"`
	File     *fileDeltaText    `json:"file,omitempty"`
}

func textOfEntry(e *history.Entry) *entryText {
	t := &entryText{
		Time: e.Time, Actor: e.Actor.Name, From: e.Actor.From, Comment: e.Comment,
		Kind: e.Kind.String(), Status: e.Status.String(), Deadline: e.Deadline,
		Scope: e.Scope.String(), Set: e.Set.Text(), Target: e.Target,
	}
	for _, k := range e.Unset.Keys() {
		t.Unset = append(t.Unset, k.String())
	}
	t.Deltas, t.File = textOfStep(&e.Step)
	return t
}

func (t *entryText) entry(revision uint32) (*history.Entry, error) {
	e := &history.Entry{
		Revision: revision, Time: t.Time, Actor: history.Actor{Name: t.Actor, From: t.From}, Comment: t.Comment,
		Deadline: t.Deadline, Target: t.Target,
	}
	var err error
	if e.Kind, err = kindOf(t.Kind); err != nil {
		return nil, err
	}
	if e.Status, err = statusOf(t.Status); err != nil {
		return nil, err
	}
	if e.Status == history.Pending && !e.Deadline.After(e.Time) {
		return nil, damaged("a confirm window that ends before it begins")
	}
	if e.Scope, err = settings.ParseScope(t.Scope); err != nil {
		return nil, damaged("scope %q", t.Scope)
	}
	if e.Set, err = settings.ParseValues(t.Set); err != nil {
		return nil, err
	}
	for _, name := range t.Unset {
		k, ok := settings.ParseKey(name)
		if !ok {
			return nil, damaged("unset %q", name)
		}
		e.Unset = e.Unset.With(k)
	}
	e.Step, err = t.step()
	return e, err
}
