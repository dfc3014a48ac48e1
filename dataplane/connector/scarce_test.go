package connector

import (
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// TestScarceMemory: clients that together want more memory than there is wait for each other,
// but not forever.
func TestScarceMemory(t *testing.T) {
	e := newExportWith(t, newLoopback(t), Config{Connector: spec.Connector{Limits: spec.ConnectorLimits{Memory: MinMemory}}, ClientMemory: MinMemory})
	h := e.create("file")
	const size = 700_000
	data := make([]byte, size)
	write := append(nfstest.WriteArgs(h, 0, size, nfstest.Unstable), data...)
	read := nfstest.ReadArgs(h, 0, size)
	if err := e.write(h, 0, data); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 6 {
		c := e.dial(rpctcp.ClientConfig{MaxCalls: 8, Cred: e.cred})
		for i := range 8 {
			wg.Go(func() {
				proc, args := uint32(procRead), read
				if i%2 == 0 {
					proc, args = procWrite, write
				}
				if _, err := c.Call(t.Context(), nfs.Program, 3, proc, args, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}
