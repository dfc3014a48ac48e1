package reload

import "github.com/rdmad/rdmad/controlplane/history"

// revisions yields revisions of the settings. Without a watcher its channels are nil.
type revisions struct {
	entries <-chan *history.Entry
	done    <-chan struct{}
	close   func()
}

// revisions watches the revisions. If that fails, because rdmad is about to end, a waiting file
// is applied on demand and at its next change.
func (r *Reloader) revisions() revisions {
	w, err := r.cfg.Settings.Watch()
	if err != nil {
		return revisions{close: func() {}}
	}
	return revisions{w.Events(), w.Done(), w.Close}
}
