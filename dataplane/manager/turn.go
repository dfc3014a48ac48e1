package manager

import (
	"context"

	"github.com/rdmad/rdmad/dataplane"
)

// turn is a lock for which a change does not wait longer than its caller does: whoever has it may store something on a disk
// that hangs. It has room for one value, which whoever locks it puts in.
type turn chan struct{}

func (t turn) Lock() { t <- struct{}{} }

func (t turn) Unlock() { <-t }

// wait locks it, unless over is closed before. A nil channel never is.
func (t turn) wait(over <-chan struct{}) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-over:
		return false
	}
}

// begin waits for the turn of a change. The caller then unlocks op. The error is that of ctx, or ErrShutdown.
func (m *Manager) begin(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ending, cancel)()
	locked := m.op.wait(within.Done())
	err := ctx.Err()
	if m.ending.Err() != nil {
		err = dataplane.ErrShutdown
	}
	if err != nil && locked {
		m.op.Unlock()
	}
	return err
}
