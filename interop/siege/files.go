package siege

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/rdmad/rdmad/dataplane/nfstest"
)

var fileAttacks = []Attack{
	{Name: "symlink-racer", Does: "a local user who swaps directories of the export for symbolic links to the outside, while clients walk and read through them", run: symlinkRacer},
	{Name: "handle-forger", Does: "8 clients that guess file handles, from good ones and from nothing", run: handleForger},
	{Name: "deleted-export", Does: "clients that mount an export whose directory is deleted", Deleted: true,
		run: deletedExport},
}

// The racer reads a file with the same name inside and outside the export.
// These are its contents.
const (
	raceFile = "file"
	inside   = "inside the export"
	outside  = "outside of the export, and not to be seen"
)

// symlinkRacer swaps EXPORT/race between a directory and a symbolic link to the
// outside.
func symlinkRacer(ctx context.Context, f *field) error {
	race := filepath.Join(f.target.Export, "race")
	err := errors.Join(
		makeRaced(race, inside), makeRaced(f.target.Outside, outside),
		os.Symlink(f.target.Outside, race+".link"),
	)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	all.Go(func() { f.swap(ctx, race) })
	for range 4 {
		all.Go(func() { f.walk(ctx) })
	}
	all.Wait()
	return nil
}

func makeRaced(dir, content string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, raceFile), []byte(content), 0o644)
}

func (f *field) swap(ctx context.Context, race string) {
	for ctx.Err() == nil {
		for _, step := range [][2]string{{race, race + ".dir"}, {race + ".link", race}, {race, race + ".link"}, {race + ".dir", race}} {
			if err := os.Rename(step[0], step[1]); err != nil {
				f.breach("the racer failed: %v", err)
				return
			}
		}
	}
}

// walk looks up and reads with new and with old handles. Its connection counts
// as open after a successful read.
func (f *field) walk(ctx context.Context) {
	c, rpc, err := dialTCP(ctx, fromOne, f.target.TCP)
	if err != nil {
		f.refused.Add(1)
		return
	}
	defer rpc.Close()
	root, err := c.Mount(ctx, export)
	opened := sync.OnceFunc(func() { f.opened.Add(1) })
	known := map[string][]byte{}
	for err == nil && ctx.Err() == nil {
		if dir, e := c.Lookup(ctx, root, "race"); e == nil {
			known["dir"] = dir
			if file, e := c.Lookup(ctx, dir, raceFile); e == nil {
				known["file"] = file
			}
		}
		for _, h := range known {
			got, e := c.Read(ctx, h, 0, 4096)
			if e != nil && !isStatus(e) {
				err = e
			}
			switch string(got.Data) {
			case inside:
				opened()
				f.ready()
			case outside:
				f.breach("read %q", got.Data)
			}
			f.calls.Add(1)
		}
	}
	if ctx.Err() == nil {
		f.ended.Add(1)
	}
}

// handleForger changes good handles and makes up new ones. No forged handle may
// name a file.
func handleForger(ctx context.Context, f *field) error {
	return f.slots(ctx, 8, func(ctx context.Context, s *slot) error {
		c, rpc, err := dialTCP(ctx, fromOne, f.target.TCP)
		if err != nil {
			return err
		}
		defer rpc.Close()
		root, file, err := c.Find(ctx, export, largeFile)
		if err != nil {
			return err
		}
		s.up()
		for ctx.Err() == nil {
			h := forge(root, file)
			err := c.Getattr(ctx, h)
			if err == nil && !bytes.Equal(h, root) && !bytes.Equal(h, file) {
				f.breach("handle %x was good", h)
			}
			if err != nil && !isStatus(err) {
				return err
			}
			f.calls.Add(1)
		}
		return nil
	})
}

// forge makes up a handle: it flips bits, mixes two handles, shortens or
// lengthens one, or uses random bytes.
func forge(a, b []byte) []byte {
	h := bytes.Clone(a)
	switch rand.IntN(5) {
	case 0:
		for range 1 + rand.IntN(4) {
			h[rand.IntN(len(h))] ^= 1 << rand.IntN(8)
		}
	case 1:
		at := rand.IntN(min(len(a), len(b)))
		h = append(h[:at], b[at:]...)
	case 2:
		h = h[:rand.IntN(len(h))]
	case 3:
		h = append(h, byte(rand.IntN(256)))[:min(len(h)+1, nfstest.MaxHandle)]
	default:
		for i := range h {
			h[i] = byte(rand.IntN(256))
		}
	}
	return h
}

// deletedExport mounts an export whose directory was deleted. MNT must fail.
// Otherwise a client gets a handle with which every call fails.
func deletedExport(ctx context.Context, f *field) error {
	return f.slots(ctx, 8, func(ctx context.Context, s *slot) error {
		c, rpc, err := dialTCP(ctx, fromOne, f.target.Deleted)
		if err != nil {
			return err
		}
		defer rpc.Close()
		s.up()
		for ctx.Err() == nil {
			root, err := c.Mount(ctx, export)
			if err == nil {
				if e := c.Getattr(ctx, root); e != nil {
					f.breach("a deleted export was mounted, and its root is %v", e)
					return fmt.Errorf("root: %w", fs.ErrNotExist)
				}
			} else if !isStatus(err) {
				return err
			}
			f.calls.Add(1)
		}
		return nil
	})
}
