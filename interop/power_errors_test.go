package interop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/interop/guest"
)

const (
	errorWriters = 4  // calls at the same time
	errorWrites  = 60 // of each
	// errorMark begins the blocks that the disk may refuse: what the file system itself writes
	// succeeds.
	errorMark = "data on a broken disk"
)

// errors lets the disk fail every other write of data, while several stable WRITEs of one file
// run at a time. Those that are answered OK must be on the disk: the kernel reports an error to
// one of those that share an open file, and says nothing to the others.
func (p *power) errors(t *testing.T, g *guest.Guest, c *nfstest.Client3) {
	files := nfstest.Files{Carrier: c.Carrier}
	handle, err := files.Create(t.Context(), c.Root, "broken")
	if err != nil {
		t.Fatal(err)
	}
	empty := make([]byte, errorWriters*errorWrites*stableBlock)
	if err := files.Write(t.Context(), handle, 0, empty, uint32(nfsv3.FILE_SYNC)); err != nil {
		t.Fatal(err)
	}
	p.disk.Break(func(data []byte) bool {
		return bytes.Contains(data, []byte(errorMark)) && rand.IntN(2) == 0
	})
	var all sync.WaitGroup
	var acknowledged [errorWriters * errorWrites]bool
	for w := range errorWriters {
		all.Go(func() {
			for i := range errorWrites {
				n := i*errorWriters + w
				acknowledged[n] = files.Write(t.Context(), handle, uint64(n)*stableBlock, brokenBlock(n), uint32(nfsv3.FILE_SYNC)) == nil
			}
		})
	}
	all.Wait()
	p.disk.Break(nil)
	g.MustRun(t, powerTime, "echo 3 >/proc/sys/vm/drop_caches")
	failed, lost := 0, 0
	for n, ok := range acknowledged {
		if !ok {
			failed++
			continue
		}
		got, err := files.Read(t.Context(), handle, uint64(n)*stableBlock, stableBlock)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data, brokenBlock(n)) {
			lost++
		}
	}
	t.Logf("%d WRITEs failed", failed)
	if lost > 0 {
		t.Errorf("%d of %d acknowledged WRITEs are not on the disk", lost, len(acknowledged)-failed)
	}
	if failed == 0 || failed == len(acknowledged) {
		t.Errorf("%d of %d WRITEs failed: want some", failed, len(acknowledged))
	}
}

// brokenBlock returns the contents of block n.
func brokenBlock(n int) []byte {
	sector := fmt.Sprintf("%-*s", powerSector, fmt.Sprintf("%s %d", errorMark, n))
	return []byte(strings.Repeat(sector, stableBlock/powerSector))
}
