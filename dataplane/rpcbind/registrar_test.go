package rpcbind

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

const (
	ours   = "rdma 127.0.0.1.78.81"
	theirs = "rdma 127.0.0.1.8.1"
)

// nfs registers NFSv3 on RDMA.
func nfs(address string) Registration {
	return Registration{Program: 100003, Version: 3, Transport: RDMA, Address: netip.MustParseAddrPort(address)}
}

// other is somebody else's registration of the same.
var other = mapping{program: 100003, version: 3, netid: "rdma", address: "127.0.0.1.8.1", owner: "1000"}

func TestRegister(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		want(t, "calls", s.made(), "DUMP SET")
		want(t, "registered", s.has(), ours)
		want(t, "log", s.log.told(), "INFO registered with rpcbind rdma")
		pass(DefaultInterval)
		want(t, "calls of the next look", s.made(), "DUMP")

		s.with(func() { s.list = nil }) // restarted
		pass(DefaultInterval)
		want(t, "calls after a restart", s.made(), "DUMP SET")
		want(t, "registered", s.has(), ours)
		want(t, "log", s.log.told(), "INFO registered with rpcbind rdma")

		if err := s.Registrar.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "calls of Close", s.made(), "DUMP UNSET")
		want(t, "registered", s.has(), "")
		want(t, "log", s.log.told(), "INFO unregistered from rpcbind rdma")
	})
}

// TestAlreadyThere finds what an earlier run left at the same address.
func TestAlreadyThere(t *testing.T) {
	there := other
	there.address = "127.0.0.1.78.81"
	play(t, func(f *fake) { f.list = []mapping{there} }, func(t *testing.T, s *scene) {
		want(t, "calls", s.made(), "DUMP")
		want(t, "log", s.log.told(), "INFO registered with rpcbind rdma")
		if err := s.Registrar.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "registered", s.has(), "")
	})
}

// TestAway has rpcbind away, at the start and later.
func TestAway(t *testing.T) {
	play(t, func(f *fake) { f.dead["unix"], f.dead["tcp"] = true, true }, func(t *testing.T, s *scene) {
		began := time.Now()
		pass(2 * time.Minute)
		want(t, "attempts", s.attempts(began), "0s 1s 3s 7s 15s 31s 1m1s 1m31s")
		want(t, "log", s.log.told(), "WARN cannot register with rpcbind, retrying rpcbind can't be reached "+
			"(dial unix: connection refused; dial tcp: connection refused): start it, such as by systemctl start rpcbind.socket, or leave rpcbind off")

		s.with(func() { s.dead["unix"] = false })
		pass(DefaultInterval)
		want(t, "registered", s.has(), ours)
		want(t, "log", s.log.told(), "INFO registered with rpcbind rdma\nINFO rpcbind answers")

		pass(time.Second) // the next look was due
		s.with(func() { s.dead["unix"], s.dialled = true, nil })
		began = time.Now()
		pass(DefaultInterval + 3*time.Second)
		want(t, "attempts", s.attempts(began), "30s 31s 33s")
		if err := s.Registrar.Close(t.Context()); !errors.As(err, new(*UnreachableError)) || !strings.HasPrefix(err.Error(), "not unregistered: ") {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestNeverThere closes without having seen rpcbind: nothing is left behind.
func TestNeverThere(t *testing.T) {
	play(t, func(f *fake) { f.dead["unix"], f.dead["tcp"] = true, true }, func(t *testing.T, s *scene) {
		if err := s.Registrar.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFallback finds no socket and goes on to TCP.
func TestFallback(t *testing.T) {
	play(t, func(f *fake) { f.dead["unix"] = true }, func(t *testing.T, s *scene) {
		want(t, "registered", s.has(), ours)
	})
}

// TestTaken has somebody else in our place, first and last.
func TestTaken(t *testing.T) {
	const taken = "rpcbind has program 100003 version 3 on rdma at 127.0.0.1:2049 already, registered by 1000: " +
		"stop that service or, if it is gone, remove what it left by rpcinfo -d 100003 3"
	play(t, func(f *fake) { f.list = []mapping{other} }, func(t *testing.T, s *scene) {
		pass(time.Minute)
		want(t, "registered", s.has(), theirs)
		want(t, "log", s.log.told(), "WARN not registered with rpcbind, retrying "+taken)
		if calls := s.made(); strings.Contains(calls, "SET") {
			t.Errorf("calls: %s", calls)
		}
		s.with(func() { s.list = nil })
		pass(DefaultInterval)
		want(t, "registered once it is gone", s.has(), ours)
		want(t, "log", s.log.told(), "INFO registered with rpcbind rdma")
		s.with(func() { s.list = []mapping{other} })
		pass(DefaultInterval)
		want(t, "log when it comes back", s.log.told(), "WARN not registered with rpcbind, retrying "+taken)
		if err := s.Registrar.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "registered after Close", s.has(), theirs)
	})
}

// TestTakenLast has somebody else come between the last look and Close.
func TestTakenLast(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.with(func() { s.list = []mapping{other} })
		if err := s.Registrar.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "registered", s.has(), theirs)
		want(t, "calls", s.made(), "DUMP SET DUMP")
	})
}

func TestVersion3(t *testing.T) {
	play(t, func(f *fake) { f.high = version3 }, func(t *testing.T, s *scene) {
		want(t, "registered", s.has(), ours)
		if err := s.Registrar.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "registered", s.has(), "")
	})
}

// TestRefusals has rpcbind answer anything but what it should.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*fake)
		log     string
	}{
		{"portmapper of version 2", func(f *fake) { f.high = 2 },
			"cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: DUMP: oncrpc: PROG_MISMATCH, versions 2 to 2 are served: " +
				"it speaks neither version 3 nor 4, which know of RDMA; replace it by a newer rpcbind"},
		{"only later versions", func(f *fake) { f.low, f.high = 5, 6 },
			"cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: DUMP: oncrpc: PROG_MISMATCH, versions 5 to 6 are served: " +
				"it speaks neither version 3 nor 4, which know of RDMA; replace it by a newer rpcbind"},
		{"denied on the socket", func(f *fake) { f.answer[procSet] = denied },
			"cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: SET: oncrpc: AUTH_ERROR, AUTH_TOOWEAK: it refuses this user; see its log"},
		{"denied over TCP", func(f *fake) { f.dead["unix"], f.answer[procSet] = true, denied },
			"cannot register with rpcbind, retrying rpcbind at 127.0.0.1:111: SET: oncrpc: AUTH_ERROR, AUTH_TOOWEAK: " +
				"it lets nobody register over tcp; give access to its socket, /run/rpcbind.sock, or start rpcbind with -i"},
		{"false", func(f *fake) { f.raw[procSet] = xdr.AppendBool(nil, false) },
			"not registered with rpcbind, retrying rpcbind does not take program 100003 version 3 on rdma: another service was faster, or rpcbind is out of memory"},
		{"neither true nor false", func(f *fake) { f.raw[procSet] = xdr.AppendUint32(nil, 2) },
			"cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: SET: xdr: boolean is neither 0 nor 1"},
		{"a list cut off", func(f *fake) { f.raw[procDump] = xdr.AppendUint32(nil, 1) },
			"cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: DUMP: xdr: unexpected end of data"},
		{"a list that goes on", func(f *fake) { f.raw[procDump] = make([]byte, 8) },
			"cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: DUMP: rpcbind: bytes after the results"},
		{"no DUMP", func(f *fake) {
			f.answer[procDump] = func() error { return &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail} }
		},
			"cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: DUMP: oncrpc: PROC_UNAVAIL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, c.prepare, func(t *testing.T, s *scene) {
				pass(10 * time.Minute)
				want(t, "log", s.log.told(), "WARN "+c.log)
			})
		})
	}
}

func denied() error {
	return &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}
}

// TestKept can't remove what another user has put in our place.
func TestKept(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.with(func() {
			s.list[0].owner = "superuser"
			s.raw[procUnset] = xdr.AppendBool(nil, false)
		})
		err := s.Registrar.Close(t.Context())
		if kept, ok := errors.AsType[*KeptError](err); !ok {
			t.Errorf("Close: %v", err)
		} else {
			want(t, "Close", kept.Error(), "rpcbind keeps program 100003 version 3 on rdma, registered by superuser: "+
				"remove it as that user or as root by rpcinfo -d 100003 3")
		}
	})
}

// TestUnsetFails has rpcbind deny the removing.
func TestUnsetFails(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.with(func() { s.answer[procUnset] = denied })
		if err := s.Registrar.Close(t.Context()); !errors.As(err, new(*CallError)) || !strings.Contains(err.Error(), "UNSET") {
			t.Errorf("Close: %v", err)
		}
	})
}

// TestHangs has rpcbind take calls and never answer. Looks give up by
// themselves; Close when it is told to.
func TestHangs(t *testing.T) {
	play(t, func(f *fake) { f.hung = make(chan struct{}) }, func(t *testing.T, s *scene) {
		pass(lookTimeout)
		want(t, "log", s.log.told(), "WARN cannot register with rpcbind, retrying rpcbind at /run/rpcbind.sock: DUMP: no answer in time: context deadline exceeded")
		pass(firstPause) // a look is under way again
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Registrar.Close(ctx); err != nil {
			t.Errorf("Close: %v, though nothing was registered", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v of one second", took)
		}
		want(t, "log", s.log.told(), "")
	})
}

func TestNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		r, err := New(Config{Registrations: []Registration{nfs("127.0.0.1:20049")}})
		if err != nil {
			t.Fatal(err)
		}
		r.dial = f.dial
		if err := r.Close(t.Context()); err != nil || f.attempts(time.Now()) != "" {
			t.Errorf("Close: %v, attempts %q", err, f.attempts(time.Now()))
		}
	})
}
