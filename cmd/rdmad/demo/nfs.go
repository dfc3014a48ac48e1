package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfstest"
)

// Sizes of the file and of one READ or WRITE.
const (
	fileSize = 32 << 20
	ioSize   = 1 << 20
)

// nfs writes a file by NFS, checks it in the exported directory, and reads it back.
func (d *demo) nfs(ctx context.Context) error {
	d.title("Write a file by NFSv3 over RDMA, and read it back")
	s, err := d.dial(ctx, "nfs", defaultChunk)
	if err != nil {
		return err
	}
	defer s.close()
	c := nfstest.FilesOver(s.Client, uint32(os.Getuid()), uint32(os.Getgid()))
	root, err := c.Mount(ctx, "/export")
	if err != nil {
		return err
	}
	file, err := c.Create(ctx, root, "hello")
	if err != nil {
		return err
	}
	content := make([]byte, fileSize)
	rand.Read(content)
	if err := d.writeFile(ctx, c, file, content); err != nil {
		return err
	}
	onDisk, err := os.ReadFile(filepath.Join(d.dir, "export", "hello"))
	if err != nil {
		return err
	}
	if !bytes.Equal(onDisk, content) {
		return fmt.Errorf("the file in the export differs from what was written")
	}
	d.say("in the export: %d bytes, sha256 %x", len(onDisk), sha256.Sum256(onDisk))
	if err := d.readFile(ctx, c, file, content); err != nil {
		return err
	}
	return c.Remove(ctx, root, "hello")
}

func (d *demo) writeFile(ctx context.Context, c nfstest.Files, file []byte, content []byte) error {
	began := time.Now()
	for at := 0; at < len(content); at += ioSize {
		if err := c.Write(ctx, file, uint64(at), content[at:at+ioSize], nfstest.Unstable); err != nil {
			return err
		}
	}
	if err := c.Commit(ctx, file); err != nil {
		return err
	}
	d.say("written and committed: %d MiB in %s", len(content)>>20, pace(len(content), began))
	return nil
}

func (d *demo) readFile(ctx context.Context, c nfstest.Files, file []byte, want []byte) error {
	began := time.Now()
	for at := 0; at < len(want); {
		got, err := c.Read(ctx, file, uint64(at), ioSize)
		if err != nil {
			return err
		}
		n := len(got.Data)
		if n == 0 || !bytes.Equal(got.Data, want[at:at+n]) || got.EOF != (at+n == len(want)) {
			return fmt.Errorf("read back at %d: %d bytes that differ", at, n)
		}
		at += n
	}
	d.say("read back, the same: %d MiB in %s", len(want)>>20, pace(len(want), began))
	return nil
}

func pace(n int, began time.Time) string {
	took := time.Since(began)
	return fmt.Sprintf("%.0f ms, %.0f MB/s", took.Seconds()*1e3, float64(n)/1e6/took.Seconds())
}
