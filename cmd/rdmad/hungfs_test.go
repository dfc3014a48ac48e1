package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The name of the file of a hungFS, and what is in it.
const (
	hungFile    = "file"
	hungContent = "hello"
)

// hungVariable has the directory for the server's process.
const hungVariable = "RDMAD_TEST_HUNGFS"

func init() {
	if where := os.Getenv(hungVariable); where != "" {
		if err := serveHung(where); err != nil {
			fmt.Fprintln(os.Stderr, "hungfs:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// hungFS is a mounted file system that hangs when a test wants it: a FUSE server for one
// directory with one file, whose owner has used up a quota, or which takes nothing of a write. It
// needs root and /dev/fuse. The caller closes it.
//
// The server is a process of its own, which dies with the test. The kernel then fails what
// waits for it. A test that was its own server could not even be killed.
type hungFS struct {
	where   string
	server  *exec.Cmd
	asks    io.WriteCloser
	answers *bufio.Reader
}

// mountHung mounts the file system at a directory. The calling goroutine keeps its thread, with
// which the server would end, until Close.
func mountHung(where string) (f *hungFS, err error) {
	runtime.LockOSThread()
	f = &hungFS{where: where, server: exec.Command(os.Args[0])} // this program, until Close
	f.server.Env = append(os.Environ(), hungVariable+"="+where)
	f.server.Stderr = os.Stderr
	f.server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if f.asks, err = f.server.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := f.server.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.answers = bufio.NewReader(out)
	if err := f.server.Start(); err != nil {
		return nil, err
	}
	_, err = f.ask("mounted")
	return f, err
}

// ask has the server do something, and returns its number.
func (f *hungFS) ask(what string) (n int, err error) {
	if _, err = fmt.Fprintln(f.asks, what); err == nil {
		_, err = fmt.Fscanln(f.answers, &n)
	}
	return n, err
}

// Hang makes the file system answer nothing from now on.
func (f *hungFS) Hang() error {
	_, err := f.ask("hang")
	return err
}

// HangStatfs makes the file system answer no statfs(2) from now on.
func (f *hungFS) HangStatfs() error {
	_, err := f.ask("hang statfs")
	return err
}

// HangAfterLook makes the file system answer nothing once a directory was opened and closed.
func (f *hungFS) HangAfterLook() error {
	_, err := f.ask("hang after a look")
	return err
}

// TakeNothing makes the file system take nothing of a write, without an error. The file must not be open.
func (f *hungFS) TakeNothing() error {
	_, err := f.ask("take nothing")
	return err
}

// Heal answers what waits, and everything from now on.
func (f *hungFS) Heal() error {
	_, err := f.ask("heal")
	return err
}

// Waiting returns the number of requests that wait.
func (f *hungFS) Waiting() (int, error) { return f.ask("waiting") }

// Close unmounts the file system. Calls that wait in it fail.
func (f *hungFS) Close() error {
	f.asks.Close()
	err := f.server.Wait()
	if gone := unix.Unmount(f.where, unix.MNT_DETACH); err == nil {
		err = gone
	}
	runtime.UnlockOSThread()
	return err
}

// serveHung is the server's process. It ends with its standard input.
func serveHung(where string) error {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("/dev/fuse: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("hungfs", where, "fuse.hungfs", 0, options); err != nil {
		return fmt.Errorf("mount %s: %w", where, err)
	}
	s := &fuseServer{fd: fd}
	go s.serve()
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		fmt.Println(s.do(asked.Text()))
	}
	return nil
}

// fuseServer answers the kernel.
type fuseServer struct {
	fd int

	mu      sync.Mutex
	hung    bool
	only    uint32        // the operation that hangs; 0 means all
	looked  bool          // hangs after the next opReleasedir
	nothing bool          // writes take no byte
	waiting []fuseRequest // for heal
}

// do does what the test asks.
func (s *fuseServer) do(what string) (waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch what {
	case "hang":
		s.hung, s.only = true, 0
	case "hang statfs":
		s.hung, s.only = true, opStatfs
	case "hang after a look":
		s.looked = true
	case "take nothing":
		s.nothing = true
	case "heal":
		s.hung = false
		for i := range s.waiting {
			s.answer(&s.waiting[i])
		}
		s.waiting = nil
	}
	return len(s.waiting)
}

// fuseRequest is a request of the kernel (fuse(4)).
type fuseRequest struct {
	op     uint32
	unique uint64
	node   uint64
	body   []byte
}

// Operations of the kernel (linux/fuse.h) that the file system has, or must not answer.
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opStatfs      = 17
	opRelease     = 18
	opFlush       = 25
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opAccess      = 34
	opInterrupt   = 36
	opDestroy     = 38
	opBatchForget = 42

	rootNode, fileNode = 1, 2

	exportSupport = 1 << 4 // FUSE_EXPORT_SUPPORT: handles can be resolved
	directIO      = 1      // FOPEN_DIRECT_IO: not through the page cache
)

// serve reads requests until the file system is unmounted.
func (s *fuseServer) serve() {
	b := make([]byte, 1<<20)
	for {
		n, err := unix.Read(s.fd, b)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		le := binary.LittleEndian
		r := fuseRequest{op: le.Uint32(b[4:]), unique: le.Uint64(b[8:]), node: le.Uint64(b[16:]), body: append([]byte(nil), b[40:n]...)}
		if r.op != opForget && r.op != opBatchForget && r.op != opInterrupt && r.op != opDestroy {
			s.take(r)
		}
	}
}

// take answers a request, or keeps it while the file system hangs.
func (s *fuseServer) take(r fuseRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hung && (s.only == 0 || s.only == r.op) {
		s.waiting = append(s.waiting, r)
		return
	}
	s.answer(&r)
	if s.looked && r.op == opReleasedir {
		s.hung, s.only, s.looked = true, 0, false
	}
}

// answer answers a request. One that was interrupted meanwhile is unknown to the kernel.
func (s *fuseServer) answer(r *fuseRequest) {
	out, errno := r.result()
	if s.nothing {
		switch r.op {
		case opOpen:
			out[8] = directIO // otherwise the kernel itself makes this an EIO
		case opWrite:
			out, errno = make([]byte, 8), 0
		}
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(16+len(out)))
	b = le.AppendUint32(b, uint32(-int32(errno)))
	b = le.AppendUint64(b, r.unique)
	_, _ = unix.Write(s.fd, append(b, out...))
}

func (r *fuseRequest) result() ([]byte, unix.Errno) {
	le := binary.LittleEndian
	switch r.op {
	case opInit:
		out := make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[12:], exportSupport)
		le.PutUint32(out[20:], 1<<16) // largest write
		return out, 0
	case opLookup:
		node := uint64(fileNode)
		switch name := string(r.body[:len(r.body)-1]); {
		case name == "." && r.node != 0:
			node = r.node
		case name == "..":
			node = rootNode
		case name != hungFile || r.node != rootNode:
			return nil, unix.ENOENT
		}
		out := le.AppendUint64(nil, node)
		return append(out, append(make([]byte, 32), fuseAttributes(node)...)...), 0
	case opGetattr:
		return append(make([]byte, 16), fuseAttributes(r.node)...), 0
	case opStatfs:
		out := make([]byte, 80)
		for i := range 3 {
			le.PutUint64(out[8*i:], 1<<20)
		}
		le.PutUint32(out[40:], 4096)
		le.PutUint32(out[44:], 255)
		le.PutUint32(out[48:], 4096)
		return out, 0
	case opOpen, opOpendir:
		return make([]byte, 16), 0
	case opRead:
		return []byte(hungContent)[min(le.Uint64(r.body[8:]), uint64(len(hungContent))):], 0
	case opWrite:
		return nil, unix.EDQUOT
	case opReaddir, opRelease, opReleasedir, opFlush, opAccess:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

// fuseAttributes returns a struct fuse_attr.
func fuseAttributes(node uint64) []byte {
	le := binary.LittleEndian
	out := make([]byte, 88)
	le.PutUint64(out, node)
	mode := uint32(unix.S_IFDIR | 0o777)
	if node == fileNode {
		mode = unix.S_IFREG | 0o666
		le.PutUint64(out[8:], uint64(len(hungContent)))
	}
	le.PutUint32(out[60:], mode)
	le.PutUint32(out[64:], 1) // links
	le.PutUint32(out[80:], 4096)
	return out
}
