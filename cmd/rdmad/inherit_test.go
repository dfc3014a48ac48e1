package main

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestChangedServiceHasAnotherDirectory: a change of a service while the file system of an export is
// not mounted exports the empty directory. The log says so.
func TestChangedServiceHasAnotherDirectory(t *testing.T) {
	state, dir, log := t.TempDir(), filepath.Join(t.TempDir(), "export"), new(logtest.Log)
	must(t, os.Mkdir(dir, 0o755))
	s := &services{
		log: slog.New(slog.NewTextHandler(log, nil)), state: func(string) string { return state }, files: func() int { return 100 },
		memory: func() procmem.Limit { return procmem.Limit{} }, all: make(map[string]*service),
	}
	change := func(warnings int) {
		t.Helper()
		sv := have(s.make(t.Context(), &spec.Service{Name: "a", NFS: &spec.NFS{Export: spec.Export{Path: dir}}}, "", s.openNFS))(t)
		must(t, sv.Open(t.Context()))
		sv.Start()
		t.Cleanup(func() { sv.Close() })
		if n := strings.Count(log.String(), "another directory or file system than before the change"); n != warnings {
			t.Errorf("%d warnings, want %d:\n%s", n, warnings, log)
		}
	}
	change(0)
	change(0)
	must(t, os.Rename(dir, dir+".mounted"))
	must(t, os.Mkdir(dir, 0o755))
	change(1)
	change(1)
}

// TestRepeatedCallsOfAChangedService: a client whose connection ended because its service was
// changed repeats the call on the next one. It gets the first reply, and the call counts for the
// same service. The list of clients that have mounted the export still has the client.
func TestRepeatedCallsOfAChangedService(t *testing.T) {
	state, dir := t.TempDir(), filepath.Join(t.TempDir(), "export")
	must(t, os.Mkdir(dir, 0o755))
	s := &services{
		log: slog.New(slog.DiscardHandler), state: func(string) string { return state }, files: func() int { return 100 },
		memory: func() procmem.Limit { return procmem.Limit{} }, all: make(map[string]*service),
	}
	open := func(readOnly bool) manager.Service {
		sv := have(s.make(t.Context(), &spec.Service{Name: "a", NFS: &spec.NFS{Export: spec.Export{Path: dir, ReadOnly: readOnly}}}, "", s.openNFS))(t)
		must(t, sv.Open(t.Context()))
		sv.Start()
		return sv
	}
	user := oncrpc.AuthSys{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	call := func(sv manager.Service, xid, program, proc uint32, args []byte) xdr.Decoder {
		reply := &oncrpc.Reply{}
		if err := sv.ServeRPC(t.Context(), &oncrpc.Call{
			XID: xid, Program: program, Version: 3, Procedure: proc, Args: oncrpc.Payload{Stream: args}, Peer: netip.MustParseAddrPort("192.0.2.1:700"),
			Cred: oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: user.Append(nil)},
		}, reply); err != nil {
			t.Fatal(err)
		}
		return xdr.NewDecoder(reply.Stream)
	}
	first := open(false)
	mnt := call(first, 1, nfs.MountProgram, 1, xdr.AppendString(nil, "/export"))
	if status := mnt.Uint32(); status != 0 {
		t.Fatalf("MNT: %d", status)
	}
	const sattr = 6 * xdr.Unit // nothing is set
	mkdir := append(xdr.AppendString(xdr.AppendOpaque(nil, mnt.Opaque(64)), "d"), make([]byte, sattr)...)
	made := call(first, 2, nfs.Program, 9, mkdir)
	if status := made.Uint32(); status != 0 {
		t.Fatalf("MKDIR: %d", status)
	}
	second := open(true)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	again := call(second, 2, nfs.Program, 9, mkdir)
	if status := again.Uint32(); status != 0 {
		t.Errorf("MKDIR again: %d", status)
	}
	dump := call(second, 3, nfs.MountProgram, 2, nil)
	if listed := dump.Bool(); !listed || string(dump.Opaque(256)) != "192.0.2.1" || string(dump.Opaque(256)) != "/export" {
		t.Error("DUMP does not list the client")
	}
	if first.(*service).calls != second.(*service).calls {
		t.Error("the counters began anew")
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
