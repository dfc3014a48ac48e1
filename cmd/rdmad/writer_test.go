package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"

	"github.com/rdmad/rdmad/dataplane/nfstest"
)

const blockSize = 8192

// block is what the i-th block of the writer's file holds.
func block(i int) []byte {
	b := make([]byte, 0, blockSize)
	for len(b) < blockSize {
		b = binary.BigEndian.AppendUint64(b, uint64(i)<<32|uint64(len(b)))
	}
	return b
}

// writer writes blocks to a file over NFS, each with FILE_SYNC, until its
// connection ends.
type writer struct {
	r    *rig
	file []byte
	done chan struct{}

	mu           sync.Mutex
	more         sync.Cond
	acknowledged int // blocks
	ended        bool
}

func (r *rig) writer(p *process) *writer {
	r.t.Helper()
	c := nfstest.FilesOver(r.dial(p.addresses["nfs"]), 0, 0)
	root, err := c.Mount(r.t.Context(), "/export")
	if err != nil {
		r.t.Fatal(err)
	}
	w := &writer{r: r, done: make(chan struct{})}
	w.more.L = &w.mu
	if w.file, err = c.Create(r.t.Context(), root, "blocks"); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		for i := 0; ; i++ {
			err := c.Write(r.t.Context(), w.file, uint64(i)*blockSize, block(i), nfstest.FileSync)
			w.mu.Lock()
			if err == nil {
				w.acknowledged++
			} else {
				w.ended = true
			}
			w.more.Broadcast()
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

// waitFor waits until so many blocks are acknowledged.
func (w *writer) waitFor(blocks int) {
	w.r.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.acknowledged < blocks && !w.ended {
		w.more.Wait()
	}
	if w.acknowledged < blocks {
		w.r.t.Fatalf("writing ended after %d blocks", w.acknowledged)
	}
}

// stop waits for the end and gives the number of acknowledged blocks.
func (w *writer) stop() int {
	<-w.done
	return w.acknowledged
}

// check looks for the acknowledged blocks in the export.
func (w *writer) check(blocks int) {
	w.r.t.Helper()
	got, err := os.ReadFile(filepath.Join(w.r.dir, "srv", "blocks"))
	if err != nil {
		w.r.t.Fatal(err)
	}
	for i := range blocks {
		if at := i * blockSize; len(got) < at+blockSize || !bytes.Equal(got[at:at+blockSize], block(i)) {
			w.r.t.Fatalf("block %d of %d that were acknowledged is not there", i, blocks)
		}
	}
}
