package driver

import (
	"fmt"
	"sync"

	"github.com/rdmad/rdmad/verbs"
)

// Users counts the users of an object. An object with users cannot be closed.
type Users struct {
	mu     sync.Mutex
	n      int
	closed bool
}

// Use counts one more user. It fails if the object is closed.
func (u *Users) Use() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return verbs.ErrClosed
	}
	u.n++
	return nil
}

// Unuse ends one Use.
func (u *Users) Unuse() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
}

// Close closes the object. first is true for the call that closed it. It fails with ErrBusy
// while there are users, or with the error of free. what is the name of the object, for the
// error.
func (u *Users) Close(what string, free func() error) (first bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.closed:
		return false, nil
	case u.n > 0:
		return false, fmt.Errorf("%s with %d users: %w", what, u.n, verbs.ErrBusy)
	}
	if err := free(); err != nil {
		return false, err
	}
	u.closed = true
	return true, nil
}
