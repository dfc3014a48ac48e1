package rpcrdma_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type handlerFunc func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

func TestSmoke(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p := loopback.New(loopback.Config{})
	l, err := rpcrdma.Listen(ctx, p, "127.0.0.1:0", rpcrdma.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	h := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		r.Stream = append(r.Stream, c.Args.Stream...)
		return nil
	})
	accepted := make(chan *rpcrdma.Conn, 1)
	go func() {
		req, err := l.Accept(ctx)
		if err != nil {
			t.Error(err)
			close(accepted)
			return
		}
		c, err := req.Accept(ctx, rpcrdma.ConnConfig{Handler: h})
		if err != nil {
			t.Error(err)
			close(accepted)
			return
		}
		accepted <- c
	}()
	cl, err := rpcrdma.Dial(ctx, p, l.Addr().String(), rpcrdma.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	sc := <-accepted
	for i := range 300 {
		args := bytes.Repeat([]byte{byte(i), 1, 2, 3}, i)
		call := rpcrdma.Call{Program: 1, Version: 1, Procedure: 1, Args: args, MaxReply: len(args)}
		if err := cl.Call(ctx, &call); err != nil {
			t.Fatal(i, err)
		}
		if !bytes.Equal(call.Reply, args) {
			t.Fatal("reply", len(call.Reply))
		}
	}
	t.Logf("%+v\n%+v\n%+v", sc.Stats(), sc.Info(), cl.Stats())
	if err := cl.Close(); err != nil {
		t.Fatal(err)
	}
	<-sc.Done()
	t.Log(sc.Err())
	l.Close()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
