package reload

import (
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
)

// revisions yields revisions of the settings. The zero value yields none.
type revisions struct{ w *desired.Watcher }

// revisions watches the revisions. If that fails, because there are too many watchers or rdmad
// is about to end, a waiting file is applied on demand and at its next change.
func (r *Reloader) revisions() revisions {
	w, err := r.cfg.Settings.WatchRevisions()
	if err != nil {
		return revisions{}
	}
	return revisions{w}
}

func (r revisions) entries() <-chan *history.Entry {
	if r.w == nil {
		return nil
	}
	return r.w.Events()
}

func (r revisions) done() <-chan struct{} {
	if r.w == nil {
		return nil
	}
	return r.w.Done()
}

func (r revisions) close() {
	if r.w != nil {
		r.w.Close()
	}
}
