// Package top is `rdmactl top`: a live view of a rdmad in a terminal, from
// which its settings can be changed.
//
// It is a model in the sense of bubbletea: messages go in, Update makes the
// next state of them, View draws it. Samples, answers and keys are messages
// alike, so that tests need neither a terminal nor a daemon. feed.go brings
// samples, control.go answers; nothing else talks to rdmad. Nothing reads a
// clock: times are those of the messages.
package top

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// Options configure the view.
type Options struct {
	// Conn is the connection to rdmad. The caller owns it.
	Conn *grpc.ClientConn
	// Addr is the address of rdmad, to be shown.
	Addr string
	// Interval is the time between samples.
	Interval time.Duration
	// Timeout limits the wait for each answer.
	Timeout time.Duration
	// Sort is the column to sort by, one of Columns.
	Sort string
	// Reverse reverses the order.
	Reverse bool
	// Filter is a text that shown connections must contain.
	Filter string
	// In and Out are the terminal. Env is the environment that describes it.
	In, Out *os.File
	Env     []string
	// Assign parses KEY=VALUE arguments in the form of `settings set`.
	Assign func(assignments []string) (set *rdmadv1.Settings, unset []string, err error)
	// Values returns the possible values of a key, or nil for numbers.
	Values func(key string) []string
	// Explain returns an error as one line for the user.
	Explain func(error) string
	// Lost returns since when a stream that ended with an error saw nothing; now is when it ended.
	Lost func(err error, now time.Time) time.Time
}

// Run shows the view until the user quits or ctx ends. It then restores the terminal. It fails
// if rdmad is not reachable at the start. Later it waits until rdmad is back.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := newFeed(&o)
	first, err := f.look(ctx)
	if err != nil {
		return err
	}
	m := newModel(&o, newRemote(ctx, &o))
	m.take(first)
	return show(ctx, &o, m, f.follow)
}

// show shows a view, with what follow sends, until the user quits or ctx ends.
func show(ctx context.Context, o *Options, m tea.Model, follow func(context.Context, func(tea.Msg)) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := tea.NewProgram(m, tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Env), tea.WithoutSignalHandler())
	var feeding sync.WaitGroup
	feeding.Go(func() { feedAll(ctx, o.Conn, follow, p.Send) })
	// Quit draws the last view and gives the terminal back; ending the
	// program by its context would not.
	quit := context.AfterFunc(ctx, p.Quit)
	_, err := p.Run()
	quit()
	cancel()
	feeding.Wait()
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}
