package siege

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Files of the export.
const (
	largeFile   = "large"   // 1 MiB, for the attackers
	readFile    = "read"    // 1 MiB of nfstest.Data
	writtenFile = "written" // for the writer
)

const (
	readSize  = 4 << 10
	writeSize = 64 << 10
)

// innocents are the clients of one rdmad.
type innocents struct {
	target   Target
	provider rdmacm.Provider
	all      []*innocent

	goroutines atomic.Int64 // rdmad's, at the last scrape
}

func newInnocents(t Target, p rdmacm.Provider) *innocents {
	is := &innocents{target: t, provider: p}
	is.all = []*innocent{is.reader(), is.writer(), is.onTCP(), is.mounter(), is.connector(), is.operator(), is.scraper()}
	return is
}

func (is *innocents) close() {
	for _, in := range is.all {
		if in.close != nil {
			in.close()
		}
	}
}

// here is the source address of all innocent clients.
var here = net.IPv4(127, 0, 0, 1)

func (is *innocents) dial(ctx context.Context) (*rpcrdma.Client, error) {
	return rpcrdma.Dial(ctx, is.provider, is.target.RDMA, rpcrdma.DialConfig{MemoryLimit: 16 << 20})
}

// kept is an RDMA connection that is made again after an error.
type kept struct {
	is   *innocents
	name string // of the file
	rpc  *rpcrdma.Client
	nfstest.Files
	file []byte
}

// use calls f with an open connection.
func (k *kept) use(ctx context.Context, f func() error) error {
	err := k.open(ctx)
	if err == nil {
		err = f()
	}
	if err != nil {
		k.close()
	}
	return err
}

func (k *kept) open(ctx context.Context) (err error) {
	if k.rpc != nil {
		return nil
	}
	if k.rpc, err = k.is.dial(ctx); err != nil {
		k.rpc = nil
		return err
	}
	k.Files = nfstest.FilesOver(k.rpc, 0, 0)
	_, k.file, err = k.Find(ctx, export, k.name)
	return err
}

func (k *kept) close() {
	if k.rpc != nil {
		k.rpc.Close()
		k.rpc = nil
	}
}

// reader makes a client that reads 4 KiB over RDMA.
func (is *innocents) reader() *innocent {
	k := &kept{is: is, name: readFile}
	return &innocent{name: "reader", every: 5 * time.Millisecond, least: 30, close: k.close, do: func(ctx context.Context) error {
		return k.use(ctx, func() error { return readAnywhere(ctx, k.Files, k.file) })
	}}
}

// readAnywhere reads 4 KiB at a random offset of a file that holds
// nfstest.Data.
func readAnywhere(ctx context.Context, c nfstest.Files, file []byte) error {
	at := uint64(rand.IntN(bulk - readSize))
	got, err := c.Read(ctx, file, at, readSize)
	if err == nil && !bytes.Equal(got.Data, nfstest.Data(at, readSize)) {
		err = fmt.Errorf("READ at %d: wrong data, %d bytes", at, len(got.Data))
	}
	return err
}

// writer makes a client that writes 64 KiB over RDMA and reads them back.
func (is *innocents) writer() *innocent {
	k := &kept{is: is, name: writtenFile}
	n := uint64(0)
	return &innocent{name: "writer", every: 50 * time.Millisecond, least: 5, close: k.close, do: func(ctx context.Context) error {
		return k.use(ctx, func() error {
			n++
			data, at := nfstest.Data(n*writeSize, writeSize), n%16*writeSize
			if err := k.Write(ctx, k.file, at, data, nfstest.Unstable); err != nil {
				return err
			}
			got, err := k.Read(ctx, k.file, at, writeSize)
			if err == nil && !bytes.Equal(got.Data, data) {
				err = fmt.Errorf("what was written at %d is not what is read", at)
			}
			return err
		})
	}}
}

// onTCP makes a client that makes GETATTRs and READs of 4 KiB in turn, over
// TCP.
func (is *innocents) onTCP() *innocent {
	n := 0
	var c nfstest.Files
	var rpc *rpctcp.Client
	var file []byte
	closing := func() {
		if rpc != nil {
			rpc.Close()
			rpc = nil
		}
	}
	return &innocent{name: "tcp", every: 10 * time.Millisecond, least: 20, close: closing, do: func(ctx context.Context) (err error) {
		if rpc == nil {
			if c, rpc, err = dialTCP(context.WithoutCancel(ctx), here, is.target.TCP); err == nil {
				_, file, err = c.Find(ctx, export, readFile)
			}
		}
		if n++; err == nil && n%2 == 0 {
			err = c.Getattr(ctx, file)
		} else if err == nil {
			err = readAnywhere(ctx, c, file)
		}
		if err != nil {
			closing()
		}
		return err
	}}
}

// mounter makes a client that mounts on a new TCP connection, as a kernel
// client does before it uses RDMA.
func (is *innocents) mounter() *innocent {
	return &innocent{name: "mount", every: 200 * time.Millisecond, least: 3, do: func(ctx context.Context) error {
		c, rpc, err := dialTCP(ctx, here, is.target.TCP)
		if err != nil {
			return err
		}
		defer rpc.Close()
		_, err = c.Mount(ctx, export)
		return err
	}}
}

// connector makes a client that makes a new RDMA connection and one call.
func (is *innocents) connector() *innocent {
	return &innocent{name: "connect", every: 200 * time.Millisecond, least: 3, do: func(ctx context.Context) error {
		c, err := is.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.Call(ctx, &rpcrdma.Call{Program: nfstest.Program, Version: nfstest.Version3, Cred: rootAuth})
	}}
}

// operator makes a client that asks for the status as an admin, on a new
// connection.
func (is *innocents) operator() *innocent {
	return &innocent{name: "operator", every: 500 * time.Millisecond, least: 2, do: func(ctx context.Context) error {
		return statusAs(ctx, &is.target, here, admin)
	}}
}

// admin is the name of the operator's certificate.
const admin = "admin"

var goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// scraper makes a client that scrapes the metrics on a new connection.
func (is *innocents) scraper() *innocent {
	return &innocent{name: "metrics", every: 500 * time.Millisecond, least: 2, do: func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		b, err := scrape(ctx, scraper(ctx, here), is.target.Metrics)
		if err != nil {
			return err
		}
		m := goroutinesLine.FindSubmatch(b)
		if m == nil {
			return errors.New("no go_goroutines among the metrics")
		}
		n, err := strconv.ParseInt(string(m[1]), 10, 64)
		is.goroutines.Store(n)
		return err
	}}
}
