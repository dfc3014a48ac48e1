package transport

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
)

// A window exposes a piece of memory to the peer. It is a type 2B memory window or, on
// devices without them, the registration of the piece.
type window = verbs.MW

// windows are a connection's type 2B memory windows. They are kept for reuse.
type windows struct {
	free, all []window
}

func (w *windows) closeAll() (err error) {
	for _, mw := range w.all {
		if e := mw.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("memory window: %w", e))
		}
	}
	*w = windows{}
	return err
}

// window returns a free window.
func (l *link) window() (window, error) {
	if last := len(l.windows.free) - 1; last >= 0 {
		w := l.windows.free[last]
		l.windows.free = l.windows.free[:last]
		return w, nil
	}
	w, err := l.host.pd.AllocMW()
	if err != nil {
		return nil, err
	}
	l.windows.all = append(l.windows.all, w)
	l.stats.WindowsAllocated++
	return w, nil
}

// recycleWindows takes back the windows in list. The peer can no longer use them.
func (l *link) recycleWindows(list *[]window) {
	if l.host.attr.MemWindowType2B {
		l.windows.free = append(l.windows.free, *list...)
	}
	clear(*list)
	*list = (*list)[:0]
}
