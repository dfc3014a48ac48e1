package siege

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// export is the path that clients mount.
const export = "/export"

// rootAuth is the credential of all calls.
var rootAuth = nfstest.User(0, 0)

// dialTCP makes an NFS client on a new TCP connection.
func dialTCP(ctx context.Context, from net.IP, address string) (nfstest.Files, *rpctcp.Client, error) {
	conn, err := dial(ctx, from, address)
	if err != nil {
		return nfstest.Files{}, nil, err
	}
	rpc := rpctcp.NewClient(conn, rpctcp.ClientConfig{Cred: rootAuth})
	return nfstest.Files{Carrier: nfstest.TCP{Client: rpc, Auth: rootAuth}}, rpc, nil
}

// handle returns the handle of the large file for an attacker.
func (f *field) handle(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, rpc, err := dialTCP(ctx, fromOne, f.target.TCP)
	if err != nil {
		return nil, err
	}
	defer rpc.Close()
	_, file, err := c.Find(ctx, export, largeFile)
	return file, err
}

// create creates n files in the export for an attacker, and returns their handles.
func (f *field) create(ctx context.Context, n int) (files [][]byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, rpc, err := dialTCP(ctx, fromOne, f.target.TCP)
	if err != nil {
		return nil, err
	}
	defer rpc.Close()
	root, err := c.Mount(ctx, export)
	for i := 0; err == nil && i < n; i++ {
		var file []byte
		file, err = c.Create(ctx, root, fmt.Sprintf("attacker-%d", i))
		files = append(files, file)
	}
	return files, err
}

// isStatus reports whether err is a status in rdmad's reply.
func isStatus(err error) bool { return errors.As(err, new(nfstest.StatusError)) }
