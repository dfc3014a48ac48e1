package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/durable"
)

// block is what files are padded to, in bytes. A file that is written over without
// growing needs no commit of the file system's journal.
const block = 4 << 10

// spareOf is the name of the file that the next contents are written to: those before
// the present ones.
func spareOf(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".spare")
}

// replace gives a file new contents, which are on the disk when it returns. There
// is no moment at which a part of them has the file's name. The file and its spare
// change places, so that no blocks are allocated for a file that does not grow.
func replace(path string, data []byte) error {
	spare := spareOf(path)
	if err := overwrite(spare, data); err != nil {
		return err
	}
	if err := exchange(spare, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// overwrite makes data what a file holds, on the disk.
func overwrite(name string, data []byte) error {
	f, err := openSpare(name)
	if err != nil {
		return err
	}
	return errors.Join(fill(f, data), f.Close())
}

func fill(f *os.File, data []byte) error {
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size := int64(len(data)); info.Size() != size {
		if err := f.Truncate(size); err != nil {
			return err
		}
	}
	return unix.Fdatasync(int(f.Fd()))
}

// openSpare opens a file to be written over, or a new one in its place if it has other
// names, such as those of a backup that shares files.
func openSpare(name string) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !isAlone(info) {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
}

func isAlone(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode().IsRegular() && s.Nlink == 1
}

// exchange has two files change names. A file that there is none for, or whose file
// system can't exchange names, only takes the other name.
func exchange(spare, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, spare, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return os.Rename(spare, path)
	}
	return err
}
