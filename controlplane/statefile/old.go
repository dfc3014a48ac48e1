package statefile

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// Format 1 was a bbolt file. bbolt trusts a file's pages: a damaged one makes it
// fault, recurse without an end or allocate what a page says, which no caller can
// recover from. So a process of its own, with limits, reads the file and prints
// what is in it.

// oldReader is the name of that process. The program is the present one.
const oldReader = "rdmad-read-bbolt"

// Limits of that process.
const (
	oldMemory = 512 << 20 // bytes
	oldCPU    = 3         // seconds
	oldStack  = 16 << 20  // bytes
	oldLock   = time.Second
	oldTime   = 30 * time.Second // for the whole process, waiting for a disk included
	oldBusy   = 3                // exit code: the file is open elsewhere
)

func init() {
	if len(os.Args) == 2 && os.Args[0] == oldReader {
		os.Exit(printOld(os.Args[1]))
	}
}

// oldValue is a value of the file. Data is a CRC32C of bucket, key and text,
// big-endian, and the text: JSON.
type oldValue struct {
	Bucket string `json:"bucket"` // meta, scopes or history
	Key    []byte `json:"key"`    // a name, a scope or a revision, big-endian
	Data   []byte `json:"data"`
}

// printOld prints the values of a file, and gives the process's exit code.
func printOld(path string) int {
	debug.SetMaxStack(oldStack)
	err := errors.Join(
		unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: oldMemory, Max: oldMemory}),
		unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: oldCPU, Max: oldCPU}))
	if err == nil {
		err = walkOld(path, os.Stdout)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return oldBusy
	}
	return 1
}

func walkOld(path string, w io.Writer) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: oldLock, ReadOnly: true})
	if err != nil {
		return err
	}
	out, room := json.NewEncoder(w), maxFile
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(bucket []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, data []byte) error {
				if room -= len(key) + len(data); room < 0 {
					return errors.New("more than there can be")
				}
				return out.Encode(oldValue{string(bucket), key, data})
			})
		})
	})
}

// readOld reads the file of an earlier rdmad.
func readOld(path string) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), oldTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", path) //nolint:gosec // this program, and a path of the operator
	cmd.Args[0], cmd.Env = oldReader, []string{"GOTRACEBACK=none"}
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == oldBusy:
		return nil, fmt.Errorf("%s: is in use by an earlier rdmad", path)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: not read within %v", path, oldTime)
	case errors.As(err, &exit):
		why, _, _ := bytes.Cut(append(bytes.TrimSpace(exit.Stderr), '\n'), []byte{'\n'})
		return nil, damaged("neither of format %d nor a bbolt file: %.200s", format, why)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	o := oldFile{"meta": {}, "scopes": {}, "history": {}}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var v oldValue
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			return o.snapshot()
		} else if err != nil {
			return nil, damaged("%v", err)
		}
		if err := o.add(&v); err != nil {
			return nil, err
		}
	}
}

// oldFile is texts by bucket and key.
type oldFile map[string]map[string][]byte

func (o oldFile) add(v *oldValue) error {
	values, ok := o[v.Bucket]
	if !ok || len(v.Data) < 4 || binary.BigEndian.Uint32(v.Data) != sum([]byte(v.Bucket+"\x00"+string(v.Key)+"\x00"), v.Data[4:]) {
		return damaged("%s %q: wrong checksum", v.Bucket, v.Key)
	}
	values[string(v.Key)] = v.Data[4:]
	return nil
}

func (o oldFile) get(bucket, key string, v any) error {
	text, ok := o[bucket][key]
	if !ok {
		return damaged("no %q in %s", key, bucket)
	}
	return decode(text, v)
}

// snapshot is all of that. Counts make sure that nothing is missing.
func (o oldFile) snapshot() (*snapshot, error) {
	var version int
	var counts struct {
		Revision uint32 `json:"revision"`
		Writes   uint64 `json:"writes"`
		Scopes   int    `json:"scopes"`
		Entries  int    `json:"entries"`
	}
	var seen settings.FileLayer
	s := &snapshot{state: state{Scopes: map[settings.Scope]settings.Layer{}}}
	for key, v := range map[string]any{"format": &version, "state": &counts, "file": &s.File, "seen": &seen} {
		if err := o.get("meta", key, v); err != nil {
			return nil, err
		}
	}
	if version != 1 || len(o["scopes"]) != counts.Scopes || len(o["history"]) != counts.Entries {
		return nil, damaged("format %d, %d scopes and %d revisions, not 1, %d and %d",
			version, len(o["scopes"]), len(o["history"]), counts.Scopes, counts.Entries)
	}
	s.Revision, s.Oldest, s.Seen = counts.Revision, counts.Revision+1-uint32(counts.Entries), seen.Values
	for name := range o["scopes"] {
		var layer settings.Layer
		scope, err := settings.ParseScope(name)
		if err := errors.Join(err, o.get("scopes", name, &layer)); err != nil {
			return nil, damaged("%v", err)
		}
		s.Scopes[scope] = layer
	}
	for revision := s.Oldest; revision-1 != s.Revision; revision++ {
		if err := o.entry(s, revision); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// entry appends an entry. In the earlier format the author and the keys stood elsewhere in an entry.
func (o oldFile) entry(s *snapshot, revision uint32) error {
	var old struct {
		history.Entry
		Actor  string              `json:"actor"`
		From   string              `json:"from"`
		Deltas []settings.Delta    `json:"deltas"`
		File   *settings.FileDelta `json:"file"`
	}
	if err := o.get("history", string(binary.BigEndian.AppendUint32(nil, revision)), &old); err != nil {
		return err
	}
	e := old.Entry
	e.Revision, e.Actor, e.Step = revision, history.Actor{Name: old.Actor, From: old.From}, settings.Step{Deltas: old.Deltas, File: old.File}
	return s.add(&e)
}
