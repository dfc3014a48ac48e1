package rpcrdma_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// The examples' program: 1 GREET string -> string; 2 BOOK -> opaque<>, which
// may travel by RDMA Write.
const (
	greetProgram, greetVersion = 0x20000042, 1
	procGreet, procBook        = 1, 2
)

// greeter serves it.
type greeter struct{}

func (greeter) ServeRPC(ctx context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	switch call.Procedure {
	case procGreet:
		args := xdr.NewDecoder(call.Args.Stream)
		name := args.Opaque(64)
		if args.Err() != nil {
			return &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs}
		}
		reply.Stream = xdr.AppendOpaque(reply.Stream, append([]byte("hello, "), name...))
		return nil
	case procBook:
		book := strings.Repeat("all work and no play ", 5000)
		buf, err := reply.Mem.Alloc(ctx, len(book)) // registered memory
		if err != nil {
			return err
		}
		reply.Stream = xdr.AppendUint32(reply.Stream, uint32(len(book)))
		reply.AppendItem(buf, copy(buf.Bytes(), book))
		return nil
	}
	return &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail}
}

// A server: a handler behind a listener, one connection.
func ExampleListen() {
	ctx := context.Background()
	provider, err := softiwarp.New(softiwarp.Config{}) // iWARP over TCP
	check(err)
	defer provider.Close()
	listener, err := rpcrdma.Listen(ctx, provider, "127.0.0.1:0", rpcrdma.ListenConfig{})
	check(err)
	defer listener.Close()

	var programs oncrpc.Mux // answers PROG_UNAVAIL and PROG_MISMATCH by itself
	programs.Handle(greetProgram, greetVersion, greeter{})

	go client(listener.Addr().String())
	request, err := listener.Accept(ctx) // in a loop, in earnest
	check(err)
	conn, err := request.Accept(ctx, rpcrdma.ConnConfig{Handler: &programs})
	check(err)
	<-conn.Done() // the client has gone
	stats := conn.Stats()
	fmt.Println(stats.Calls, "calls,", stats.RDMAWrites, "RDMA Write,", conn.Err())
	// Output: 2 calls, 1 RDMA Write, <nil>
}

// A client: a call whose arguments and results are short, then one whose result
// is placed in the client's memory.
func ExampleDial() {
	address, stop := serve()
	defer stop()
	ctx := context.Background()
	provider, err := softiwarp.New(softiwarp.Config{})
	check(err)
	defer provider.Close()
	c, err := rpcrdma.Dial(ctx, provider, address, rpcrdma.DialConfig{})
	check(err)
	defer c.Close()

	greet := rpcrdma.Call{
		Program: greetProgram, Version: greetVersion, Procedure: procGreet,
		Args:     xdr.AppendOpaque(nil, []byte("world")),
		MaxReply: 128, // decides whether the reply needs a chunk
	}
	check(c.Call(ctx, &greet))
	results := xdr.NewDecoder(greet.Reply)
	fmt.Printf("%s\n", results.Opaque(64))

	const most = 1 << 20
	into, err := c.Alloc(ctx, most)
	check(err)
	defer into.Release()
	book := rpcrdma.Call{
		Program: greetProgram, Version: greetVersion, Procedure: procBook,
		MaxReply: 4, // the length word; the rest may be placed apart
		Results:  []rpcrdma.Result{{Buf: into, Max: most}},
	}
	check(c.Call(ctx, &book))
	fmt.Printf("%d bytes: %s…\n", book.Results[0].Apart, into.Bytes()[:20])
	// Output:
	// hello, world
	// 105000 bytes: all work and no play…
}

// client is the other side of ExampleListen.
func client(address string) {
	provider, err := softiwarp.New(softiwarp.Config{})
	check(err)
	c, err := rpcrdma.Dial(context.Background(), provider, address, rpcrdma.DialConfig{})
	check(err)
	into, err := c.Alloc(context.Background(), 1<<20)
	check(err)
	for _, call := range []rpcrdma.Call{
		{Procedure: procGreet, Args: xdr.AppendOpaque(nil, []byte("server")), MaxReply: 128},
		{Procedure: procBook, MaxReply: 4, Results: []rpcrdma.Result{{Buf: into, Max: 1 << 20}}},
	} {
		call.Program, call.Version = greetProgram, greetVersion
		check(c.Call(context.Background(), &call))
	}
	into.Release()
	check(c.Drain(context.Background()))
	check(c.Close())
	check(provider.Close())
}

// serve is the other side of ExampleDial.
func serve() (address string, stop func()) {
	provider, err := softiwarp.New(softiwarp.Config{})
	check(err)
	listener, err := rpcrdma.Listen(context.Background(), provider, "127.0.0.1:0", rpcrdma.ListenConfig{})
	check(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		request, err := listener.Accept(context.Background())
		check(err)
		conn, err := request.Accept(context.Background(), rpcrdma.ConnConfig{Handler: greeter{}})
		check(err)
		<-conn.Done()
	}()
	return listener.Addr().String(), func() {
		<-ended
		check(listener.Close())
		check(provider.Close())
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
