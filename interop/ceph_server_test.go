package interop

import (
	_ "embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/child"
)

// cephTime bounds each step of starting, on a busy machine.
const cephTime = 5 * time.Minute

// cephServer is nfs-ganesha before a file system of Ceph's: of the back ends that
// Debian's nfs-ganesha 4.3 has, the one that grants delegations and has extended
// attributes, both. All of it runs on the host, from where the packages of deps.sh
// are unpacked: one monitor, one metadata server, one object store in memory, and
// ganesha, which serves NFSv4.0, 4.1 and 4.2 on a TCP port of 127.0.0.1.
//
// It holds what it is given in memory (256 MiB at most, and everything is gone with
// the test), needs no root, and no process outlives the test.
type cephServer struct {
	// Address is where ganesha speaks NFSv4 over TCP.
	Address string

	programs unpackedPrograms
	dir      string // of configuration, data and logs
	monitor  string // address
}

// Identities of the cluster and of its only object store.
const (
	clusterID = "9f1e3c52-55b0-4c62-9f6d-0d6a6d3f7c11"
	storeID   = "0b7c5d5e-9a39-4f43-8d56-5f0f6d5c2d22"
)

// startCeph starts all programs and waits until ganesha serves. They are killed
// when the test ends. If the test failed, it logs the ends of their logs.
func startCeph(tb testing.TB) *cephServer {
	tb.Helper()
	s := &cephServer{programs: findCeph(tb), dir: tb.TempDir(), Address: keepAddress(tb), monitor: keepAddress(tb)}
	tb.Cleanup(func() { s.logOnFailure(tb) })
	s.startMonitor(tb)
	s.startStore(tb)
	s.startGanesha(tb)
	return s
}

// startMonitor makes a cluster of one monitor.
func (s *cephServer) startMonitor(tb testing.TB) {
	tb.Helper()
	s.write(tb, "ceph.conf", s.cephConfig())
	s.write(tb, "keyring", "")
	address := "[v2:" + s.monitor + "]"
	s.programs.run(tb, s.programs.path("usr/bin/monmaptool"), "--create", "--fsid", clusterID, "--addv", "a", address, s.path("monmap"))
	s.mkdir(tb, "mon")
	s.programs.run(tb, s.programs.path("usr/bin/ceph-mon"), "-c", s.path("ceph.conf"), "--mkfs", "-i", "a",
		"--monmap", s.path("monmap"), "--keyring", s.path("keyring"))
	s.programs.start(tb, "ceph-mon", "-c", s.path("ceph.conf"), "-f", "-i", "a")
}

// startStore makes a file system of one object store and one metadata server.
func (s *cephServer) startStore(tb testing.TB) {
	tb.Helper()
	program := s.programs.compile(tb, "ceph.c", "librados.so.2", s.dir)
	command := func(commands ...string) {
		tb.Helper()
		s.programs.run(tb, program, append([]string{s.path("ceph.conf")}, commands...)...)
	}
	command(`{"prefix": "osd new", "uuid": "` + storeID + `"}`)
	s.mkdir(tb, "osd")
	s.mkdir(tb, "mds")
	s.programs.run(tb, s.programs.path("usr/bin/ceph-osd"), "-c", s.path("ceph.conf"), "--mkfs", "-i", "0", "--osd-uuid", storeID)
	s.programs.start(tb, "ceph-osd", "-c", s.path("ceph.conf"), "-f", "-i", "0")
	s.programs.start(tb, "ceph-mds", "-c", s.path("ceph.conf"), "-f", "-i", "a")
	command(`{"prefix": "osd pool create", "pool": "names", "pg_num": 1, "size": 1}`,
		`{"prefix": "osd pool create", "pool": "data", "pg_num": 1, "size": 1}`,
		`{"prefix": "fs new", "fs_name": "test", "metadata": "names", "data": "data"}`)
}

// startGanesha starts the NFS server, which waits for the file system itself.
func (s *cephServer) startGanesha(tb testing.TB) {
	tb.Helper()
	s.mkdir(tb, "recovery")
	s.write(tb, "ganesha.conf", s.ganeshaConfig())
	process := s.programs.start(tb, "ganesha.nfsd", "-F", "-f", s.path("ganesha.conf"), "-L", s.path("ganesha.log"),
		"-p", s.path("ganesha.pid"), "-N", "NIV_EVENT")
	waitGanesha(tb, process, s.path("ganesha.log"))
}

// waitGanesha waits until an nfs-ganesha reports in its log that it is ready.
func waitGanesha(tb testing.TB, process *child.Process, logFile string) {
	tb.Helper()
	tick, late := time.NewTicker(50*time.Millisecond), time.After(cephTime)
	defer tick.Stop()
	for {
		select {
		case <-process.Done():
			log, _ := os.ReadFile(logFile)
			tb.Fatalf("ganesha did not start: %v\n%s", process.Wait(), log)
		case <-late:
			tb.Fatalf("ganesha is not ready after %v", cephTime)
		case <-tick.C:
		}
		log, err := os.ReadFile(logFile)
		if err == nil && strings.Contains(string(log), "NFS SERVER INITIALIZED") {
			return
		}
	}
}

// path returns the path of a file of the server.
func (s *cephServer) path(name string) string { return filepath.Join(s.dir, name) }

func (s *cephServer) write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func (s *cephServer) mkdir(tb testing.TB, name string) {
	tb.Helper()
	if err := os.Mkdir(s.path(name), 0o700); err != nil {
		tb.Fatal(err)
	}
}

// logBytes is how many bytes of each log are shown.
const logBytes = 8000

func (s *cephServer) logOnFailure(tb testing.TB) {
	if !tb.Failed() {
		return
	}
	logs, _ := filepath.Glob(s.path("*.log")) // the pattern is good
	for _, name := range logs {
		text, err := os.ReadFile(name)
		tb.Logf("%s: error %v\n%s", filepath.Base(name), err, text[max(0, len(text)-logBytes):])
	}
}

// keepAddress returns an address of this machine that nobody else gets until the test
// ends. Programs may listen there, one after the other.
func keepAddress(tb testing.TB) string {
	tb.Helper()
	address, kept, err := child.KeepPort()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { kept.Close() })
	return address
}

//go:embed testdata/ceph.conf
var cephConfig string

//go:embed testdata/ganesha.conf
var ganeshaConfig string

// cephConfig is the configuration of all of Ceph's programs and of its library
// in ganesha.
func (s *cephServer) cephConfig() string {
	return strings.NewReplacer("@ID@", clusterID, "@MONITOR@", "v2:"+s.monitor, "@DIR@", s.dir,
		"@LIB@", s.programs.path("usr/lib/x86_64-linux-gnu")).Replace(cephConfig)
}

func (s *cephServer) ganeshaConfig() string {
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		panic(fmt.Sprintf("own address: %v", err))
	}
	return strings.NewReplacer("@PORT@", port, "@DIR@", s.dir,
		"@LIB@", s.programs.path("usr/lib/x86_64-linux-gnu")).Replace(ganeshaConfig)
}
