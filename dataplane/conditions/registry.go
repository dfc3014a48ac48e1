package conditions

import (
	"strings"
	"sync"
	"time"
)

// key identifies the thing of a condition.
type key struct {
	kind Kind
	name string
}

// held is a condition and its source.
type held struct {
	Condition
	source int // 0 for Set
}

// Registry holds conditions. Its methods are safe for concurrent use, but a source must not
// call them.
type Registry struct {
	asking  sync.Mutex // held while the sources are called; taken before mu
	sources []func() []Finding
	looked  time.Time // when a watcher last called them; under asking

	mu       sync.Mutex
	all      map[key]held
	watchers map[*Watcher]struct{}
}

// NewRegistry returns a registry without conditions.
func NewRegistry() *Registry {
	return &Registry{all: make(map[key]held), watchers: make(map[*Watcher]struct{})}
}

// Ask adds a source, which returns all conditions of its kinds. It is called at each read and
// by Refresh, never twice at a time.
func (r *Registry) Ask(source func() []Finding) {
	r.asking.Lock()
	defer r.asking.Unlock()
	r.sources = append(r.sources, source)
}

// Set reports the state of a thing.
func (r *Registry) Set(f Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.setLocked(&f, 0) {
		r.changedLocked()
	}
}

// Remove removes the condition of a thing.
func (r *Registry) Remove(k Kind, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.all[key{k, name}]; ok {
		delete(r.all, key{k, name})
		r.changedLocked()
	}
}

// setLocked stores f and reports whether that changed anything. When the registry is full, a
// new thing is not stored.
func (r *Registry) setLocked(f *Finding, source int) bool {
	k := key{f.Reason.Kind, f.Name}
	old, ok := r.all[k]
	if !ok && len(r.all) >= MaxConditions {
		return false
	}
	if len(f.Message) > maxMessage {
		f.Message = strings.ToValidUTF8(f.Message[:maxMessage], "") + "…"
	}
	if ok && old.Finding == *f {
		return false
	}
	since := time.Now()
	if ok && old.Reason == f.Reason {
		since = old.Since
	}
	r.all[k] = held{Condition{*f, since}, source}
	return true
}

// Refresh calls the sources. Watchers are notified of changes.
func (r *Registry) Refresh() {
	r.asking.Lock()
	defer r.asking.Unlock()
	r.refresh()
}

// look is Refresh for a watcher, unless another one has just looked: clients may have thousands.
func (r *Registry) look() {
	r.asking.Lock()
	defer r.asking.Unlock()
	if now := time.Now(); now.Sub(r.looked) >= lookEvery/2 {
		r.looked = now
		r.refresh()
	}
}

// refresh calls the sources. The caller holds asking.
func (r *Registry) refresh() {
	for i, source := range r.sources {
		r.replace(i+1, source())
	}
}

// replace replaces the conditions of a source.
func (r *Registry) replace(source int, findings []Finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := false
	there := make(map[key]bool, len(findings))
	for i := range findings {
		f := &findings[i]
		there[key{f.Reason.Kind, f.Name}] = true
		changed = r.setLocked(f, source) || changed
	}
	for k, h := range r.all {
		if h.source == source && !there[k] {
			delete(r.all, k)
			changed = true
		}
	}
	if changed {
		r.changedLocked()
	}
}

// List returns all current conditions.
func (r *Registry) List() List {
	r.Refresh()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(List, 0, len(r.all))
	for _, h := range r.all {
		out = append(out, h.Condition)
	}
	out.sort()
	return out
}

// lookEvery is the interval at which a watcher calls the sources, which are in memory.
const lookEvery = time.Second

// Watcher waits for changes. One goroutine uses it and closes it.
type Watcher struct {
	r    *Registry
	news chan struct{}
	tick *time.Ticker
}

// Watch returns a watcher. Its first Next returns at once.
func (r *Registry) Watch() *Watcher {
	w := &Watcher{r: r, news: make(chan struct{}, 1), tick: time.NewTicker(lookEvery)}
	w.news <- struct{}{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watchers[w] = struct{}{}
	return w
}

// Next waits until conditions have changed since the last call. A slow watcher misses
// intermediate states, but never the last one. Next returns false when done is closed first.
func (w *Watcher) Next(done <-chan struct{}) bool {
	for {
		select {
		case <-w.news:
			return true
		case <-w.tick.C:
			w.r.look()
		case <-done:
			return false
		}
	}
}

// Close ends the watcher.
func (w *Watcher) Close() {
	w.tick.Stop()
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	delete(w.r.watchers, w)
}

func (r *Registry) changedLocked() {
	for w := range r.watchers {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}
