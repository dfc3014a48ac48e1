package interop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/interop/guest"
)

const (
	errorWriters = 4  // clients of stable WRITEs
	errorRounds  = 60 // WRITEs of each
	errorCommits = 2  // clients of COMMITs
	errorBatches = 60 // COMMITs of each
	errorBatch   = 3  // UNSTABLE WRITEs for each
	errorStable  = errorWriters * errorRounds
	errorBlocks  = errorStable + errorCommits*errorBatches*errorBatch
	// errorMark begins the sectors that the disk may refuse: what the file system itself writes
	// succeeds.
	errorMark = "data on a broken disk"
)

// errors lets the disk fail some writes of data. Four clients make stable WRITEs of one file at
// the same time. Then two clients make UNSTABLE ones and COMMIT them. A stable WRITE that is
// answered OK must be on the disk. So must an UNSTABLE one if it and its COMMIT are answered OK
// with the same verifier. Of calls that share an open file, the kernel tells an error only to one.
func (p *power) errors(t *testing.T, g *guest.Guest, c *nfstest.Client3) {
	files := nfstest.Files{Carrier: c.Carrier}
	handle, err := files.Create(t.Context(), c.Root, "broken")
	if err != nil {
		t.Fatal(err)
	}
	for at := range errorBlocks { // so that the file system has nothing to do later
		if err := files.Write(t.Context(), handle, uint64(at)*stableBlock, make([]byte, stableBlock), nfstest.Unstable); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Commit(t.Context(), handle); err != nil {
		t.Fatal(err)
	}
	var acknowledged [errorBlocks]bool
	write := func(block int, stable uint32) (nfstest.Verifier, bool) {
		v, err := files.WriteVerifier(t.Context(), handle, uint64(block)*stableBlock, brokenBlock(block), stable)
		return v, err == nil
	}
	p.disk.Break(func(data []byte) bool {
		return bytes.Contains(data, []byte(errorMark)) && rand.IntN(4) == 0
	})
	var all sync.WaitGroup
	for w := range errorWriters {
		all.Go(func() {
			for i := range errorRounds {
				n := i*errorWriters + w
				_, acknowledged[n] = write(n, nfstest.FileSync)
			}
		})
	}
	all.Wait()
	for w := range errorCommits {
		all.Go(func() {
			for i := range errorBatches {
				first := errorStable + (i*errorCommits+w)*errorBatch
				batch := acknowledged[first:][:errorBatch]
				var written [errorBatch]nfstest.Verifier
				for j := range batch {
					written[j], batch[j] = write(first+j, nfstest.Unstable)
				}
				committed, err := files.CommitVerifier(t.Context(), handle)
				for j := range batch {
					batch[j] = batch[j] && err == nil && written[j] == committed
				}
			}
		})
	}
	all.Wait()
	p.disk.Break(nil)
	g.MustRun(t, powerTime, "echo 3 >/proc/sys/vm/drop_caches")
	p.compareBroken(t, files, handle, "stable", 0, acknowledged[:errorStable])
	p.compareBroken(t, files, handle, "committed", errorStable, acknowledged[errorStable:])
}

// compareBroken reads the blocks from first on that were acknowledged.
func (p *power) compareBroken(t *testing.T, files nfstest.Files, handle []byte, what string, first int, acknowledged []bool) {
	t.Helper()
	ok, lost := 0, 0
	for i, is := range acknowledged {
		if !is {
			continue
		}
		ok++
		got, err := files.Read(t.Context(), handle, uint64(first+i)*stableBlock, stableBlock)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Data, brokenBlock(first+i)) {
			lost++
		}
	}
	t.Logf("%s: %d of %d WRITEs acknowledged", what, ok, len(acknowledged))
	if lost > 0 {
		t.Errorf("%s: %d of %d acknowledged WRITEs are not on the disk", what, lost, ok)
	}
	if ok == 0 || ok == len(acknowledged) {
		t.Errorf("%s: %d of %d WRITEs were acknowledged, want some", what, ok, len(acknowledged))
	}
}

// brokenBlock returns the contents of block n.
func brokenBlock(n int) []byte {
	sector := fmt.Sprintf("%-*s", powerSector, fmt.Sprintf("%s %d", errorMark, n))
	return []byte(strings.Repeat(sector, stableBlock/powerSector))
}
