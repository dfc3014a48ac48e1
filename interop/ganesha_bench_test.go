package interop

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

var rdmadProgram = flag.String("rdmad", "", "the rdmad that BenchmarkGanesha measures, with its absolute path; several with commas between them")

// libnfsLoad is what the client of testdata/libnfs.c does: a load, with the size of its data,
// how many operations are in progress, and how many there are in all.
type libnfsLoad struct {
	name, load         string
	size, depth, count int
}

var libnfsLoads = []libnfsLoad{
	{"random read 4 KiB, depth 1", "read", 4 << 10, 1, 10000},
	{"random read 4 KiB, depth 16", "read", 4 << 10, 16, 30000},
	{"read 1 MiB, depth 4", "read", 1 << 20, 4, 1500},
	{"write 1 MiB, depth 4", "write", 1 << 20, 4, 1500},
	{"create", "create", 0, 1, 3000},
	{"stat", "stat", 0, 1, 3000},
	{"unlink", "unlink", 0, 1, 3000},
}

// dataSize is the size of the file that loads read and write.
const dataSize = 32 << 20

// BenchmarkGanesha compares rdmad's NFSv3 over TCP with nfs-ganesha's, natively: both export
// a directory of one tmpfs, and a libnfs program works on each in turns. It runs in a process
// with file systems of its own, so that nothing is left of it, however it ends.
func BenchmarkGanesha(b *testing.B) {
	if os.Getenv(insideVariable) == "" {
		if b.N == 1 { // the testing package may ask for more
			runInside(b)
		}
		return
	}
	dir := ownFileSystems(b)
	programs, err := unpackPrograms(b.Context(), "ganesha")
	if err != nil {
		b.Fatal(err)
	}
	client := programs.compile(b, "libnfs.c", "libnfs.so.13", dir)
	servers := []tcpServer{startGaneshaVFS(b, programs, filepath.Join(dir, "ganesha"))}
	for i, program := range strings.Split(*rdmadProgram, ",") {
		servers = append(servers, startTCPRdmad(b, program, filepath.Join(dir, strconv.Itoa(i))))
	}
	var names, works []string
	for _, s := range servers {
		names = append(names, s.name)
	}
	for _, l := range libnfsLoads {
		works = append(works, l.name)
	}
	compareSides(b, names, works, func(b *testing.B, side, work int) float64 {
		return servers[side].load(b, programs, client, libnfsLoads[work])
	})
}

// insideVariable is set in the process that has file systems of its own.
const insideVariable = "TEST_GANESHA_INSIDE"

// runInside runs the benchmark in such a process.
func runInside(b *testing.B) {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Fatal("needs root: for a tmpfs of its own, and for ganesha")
	}
	if *rdmadProgram == "" {
		b.Fatal("no -rdmad: run make bench-ganesha")
	}
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	_, works, _ := strings.Cut(flag.Lookup("test.bench").Value.String(), "/")
	pattern := "-test.bench=^" + b.Name() + "$"
	if works != "" {
		pattern += "/" + works
	}
	cmd := exec.CommandContext(b.Context(), program, append(os.Args[1:], "-test.run=^$", pattern)...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	b.ReportMetric(0, "ns/op")
	runtime.LockOSThread() // the kernel sends that signal when this thread ends
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		b.Fatalf("in a process with file systems of its own: %v", err)
	}
}

// ownFileSystems makes a tmpfs for all that the benchmark writes, which vanishes with the
// process and its children. It returns a directory of it.
func ownFileSystems(b *testing.B) (dir string) {
	b.Helper()
	const run = "/run" // where ganesha looks for rpcbind, too
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		b.Fatal(err)
	}
	if err := unix.Mount("tmpfs", run, "tmpfs", 0, "mode=755"); err != nil {
		b.Fatal(err)
	}
	return run
}

// tcpServer serves NFSv3 over TCP.
type tcpServer struct {
	name             string
	nfs, mount, path string // ports, and what to mount
	pid              int
}

// load runs a load and returns its operations per second. It reports how much processor time
// of the server an operation took, with those that prepare for it and clean up.
func (s *tcpServer) load(b *testing.B, programs unpackedPrograms, client string, l libnfsLoad) float64 {
	b.Helper()
	used := cpuTime(b, s.pid)
	defer func() {
		used = cpuTime(b, s.pid) - used
		b.ReportMetric(float64(used.Microseconds())/float64(l.count), s.name+"-cpu-us/op")
	}()
	cmd := programs.command(b.Context(), client, "127.0.0.1", s.nfs, s.mount, s.path,
		l.load, strconv.Itoa(l.size), strconv.Itoa(l.depth), strconv.Itoa(l.count))
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s: %s: %v\n%s", s.name, l.name, err, stderrOf(err))
	}
	rate, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil || rate <= 0 {
		b.Fatalf("%s: %s: the client printed %q", s.name, l.name, out)
	}
	return rate
}

// newExport makes a directory with the file that loads read and write.
func newExport(b *testing.B, dir string) (export string) {
	b.Helper()
	export = filepath.Join(dir, "export")
	err := os.MkdirAll(export, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(export, "data"), make([]byte, dataSize), 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
	return export
}

// startTCPRdmad starts rdmad with the environment of its packaged unit.
func startTCPRdmad(b *testing.B, program, dir string) tcpServer {
	b.Helper()
	export := newExport(b, dir)
	config := `control: {listen: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
state: {path: ` + dir + `/state}
listeners: []
services: [{name: export, nfs: {path: ` + export + `, tcp_listen: "127.0.0.1:0"}}]
`
	file := filepath.Join(dir, "rdmad.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, "--config", file)
	cmd.Env = append(os.Environ(), unitVariables(b)...)
	ctx, cancel := context.WithTimeout(b.Context(), cephTime)
	defer cancel()
	d, err := child.StartDaemon(ctx, cmd, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		d.Kill()
		if b.Failed() {
			b.Logf("rdmad's log:\n%s", d.Log())
		}
	})
	_, port, err := net.SplitHostPort(d.Address("service"))
	if err != nil {
		b.Fatal(err)
	}
	return tcpServer{name: filepath.Base(program), nfs: port, mount: port, path: "/export", pid: d.Pid()}
}

//go:embed testdata/ganesha_vfs.conf
var ganeshaVFSConfig string

// startGaneshaVFS starts ganesha.
func startGaneshaVFS(b *testing.B, programs unpackedPrograms, dir string) tcpServer {
	b.Helper()
	answerRPCBind(b)
	export := newExport(b, dir)
	if err := os.Mkdir(filepath.Join(dir, "recovery"), 0o700); err != nil {
		b.Fatal(err)
	}
	s := tcpServer{name: "ganesha", path: export}
	for _, port := range []*string{&s.nfs, &s.mount} {
		_, *port, _ = net.SplitHostPort(keepAddress(b))
	}
	config := strings.NewReplacer("@NFS@", s.nfs, "@MOUNT@", s.mount, "@DIR@", dir, "@EXPORT@", export,
		"@LIB@", programs.path("usr/lib/x86_64-linux-gnu")).Replace(ganeshaVFSConfig)
	file, log := filepath.Join(dir, "ganesha.conf"), filepath.Join(dir, "log")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	process := programs.start(b, "ganesha.nfsd", "-F", "-f", file, "-L", log, "-p", filepath.Join(dir, "pid"), "-N", "NIV_EVENT")
	waitGanesha(b, process, log)
	s.pid = process.Pid()
	return s
}

// answerRPCBind answers ganesha's registrations with success, in rpcbind's place: without
// them it does not start. Nobody asks for the ports.
func answerRPCBind(b *testing.B) {
	b.Helper()
	l, err := net.Listen("unix", "/run/rpcbind.sock")
	if err != nil {
		b.Fatal(err)
	}
	server := rpctcp.NewServer(rpctcp.Config{Handler: registered{}})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	b.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
}

// registered answers calls with "true".
type registered struct{}

func (registered) ServeRPC(_ context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
	call.Args.Claim()
	reply.Stream = xdr.AppendUint32(reply.Stream, 1)
	return nil
}

// stderrOf returns what a program that failed printed about it.
func stderrOf(err error) string {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(exit.Stderr)
	}
	return ""
}
