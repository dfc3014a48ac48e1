package image

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/u-root/u-root/pkg/cpio"
)

// guestDirs are the directories of the guest that come with no file.
var guestDirs = []string{"dev", "etc", "mnt", "proc", "root", "run", "sys", "tmp", "var", "var/lib"}

// guestFiles are the files of the guest that come with no package.
var guestFiles = []cpio.Record{
	cpio.StaticFile("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n"+
		"statd:x:106:65534::/var/lib/nfs:/bin/sh\n_rpc:x:107:65534::/run/rpcbind:/bin/sh\n", 0o644),
	cpio.StaticFile("etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n", 0o644),
	cpio.StaticFile("etc/hosts", "127.0.0.1 localhost\n10.0.2.15 guest\n10.0.2.2 host\n", 0o644),
	cpio.StaticFile("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"+
		"services: files\nprotocols: files\nrpc: files\n", 0o644),
}

// writeInitramfs writes a tree as an uncompressed cpio archive. QEMU loads the
// bytes faster than an emulated processor decompresses them.
func writeInitramfs(path, tree string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	buffered := bufio.NewWriterSize(f, 1<<20)
	w := cpio.Newc.Writer(buffered)
	for _, dir := range guestDirs {
		if err := w.WriteRecord(cpio.Directory(dir, 0o755)); err != nil {
			return err
		}
	}
	if err := w.WriteRecord(cpio.CharDev("dev/console", 0o600, 5, 1)); err != nil {
		return err
	}
	if err := writeTree(w, tree); err != nil {
		return err
	}
	if err := cpio.WriteRecords(w, guestFiles); err != nil {
		return err
	}
	if err := cpio.WriteTrailer(w); err != nil {
		return err
	}
	return buffered.Flush()
}

// writeTree writes the files, links and directories under root.
func writeTree(w cpio.RecordWriter, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rec, err := record(path, name, d)
		if err != nil {
			return err
		}
		return w.WriteRecord(rec)
	})
}

func record(path, name string, d fs.DirEntry) (cpio.Record, error) {
	info, err := d.Info()
	if err != nil {
		return cpio.Record{}, err
	}
	switch {
	case d.IsDir():
		return cpio.Directory(name, 0o755), nil
	case d.Type() == fs.ModeSymlink:
		target, err := os.Readlink(path)
		return cpio.Symlink(name, target), err
	case d.Type().IsRegular():
		data, err := os.ReadFile(path)
		return cpio.StaticFile(name, string(data), uint64(info.Mode().Perm())), err
	}
	return cpio.Record{}, fmt.Errorf("%s: neither file, directory nor link", path)
}

// WriteAgent writes an archive with only the file /init. Together with the
// initramfs of an image it is complete.
func WriteAgent(path, program string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	w := cpio.Newc.Writer(f)
	err = w.WriteRecord(cpio.StaticFile("init", string(data), 0o755))
	if err == nil {
		err = cpio.WriteTrailer(w)
	}
	return errors.Join(err, f.Close())
}
