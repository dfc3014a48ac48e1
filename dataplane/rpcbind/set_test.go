package rpcbind

import (
	"testing"
	"testing/synctest"
)

// set replaces the registrations and waits for what that does.
func (s *scene) set(t *testing.T, list ...Registration) {
	t.Helper()
	if err := s.Set(list); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestSet(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.made()
		s.log.told()
		mount := Registration{Program: 100005, Version: 3, Transport: TCP, Address: nfs("127.0.0.1:20048").Address}
		s.set(t, nfs("127.0.0.1:20049"), mount)
		want(t, "calls for one more", s.made(), "DUMP SET")
		want(t, "registered", s.has(), ours+", tcp 127.0.0.1.78.80")
		want(t, "log", s.log.told(), "INFO registered with rpcbind tcp")

		s.set(t, nfs("127.0.0.1:2049"), mount)
		want(t, "calls for one that moved", s.made(), "DUMP UNSET SET")
		want(t, "registered", s.has(), "tcp 127.0.0.1.78.80, "+theirs)
		want(t, "log", s.log.told(), "INFO unregistered from rpcbind rdma\nINFO registered with rpcbind rdma")

		s.set(t)
		want(t, "calls for none", s.made(), "DUMP UNSET UNSET")
		want(t, "registered", s.has(), "")
		s.log.told()
		pass(2 * DefaultInterval)
		want(t, "calls with nothing to do", s.made(), "")

		s.set(t, mount)
		want(t, "registered", s.has(), "tcp 127.0.0.1.78.80")
	})
}

// TestSetOfTwoAddresses changes nothing.
func TestSetOfTwoAddresses(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.made()
		if err := s.Set([]Registration{nfs("127.0.0.1:1"), nfs("127.0.0.1:2")}); err == nil {
			t.Error("taken")
		}
		pass(DefaultInterval)
		want(t, "calls", s.made(), "DUMP")
		want(t, "registered", s.has(), ours)
	})
}

// TestSetWhileAway is made good when rpcbind is back: what was registered is
// removed, what came and went meanwhile is not heard of.
func TestSetWhileAway(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.with(func() { s.dead["unix"], s.dead["tcp"] = true, true })
		s.set(t, nfs("127.0.0.1:3"))
		s.set(t, nfs("127.0.0.1:2049"))
		want(t, "registered", s.has(), ours)
		s.with(func() { s.dead["unix"] = false })
		pass(DefaultInterval)
		want(t, "registered", s.has(), theirs)
	})
}

// TestSetAndBack leaves what is wanted again where it is.
func TestSetAndBack(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.with(func() { s.dead["unix"], s.dead["tcp"] = true, true })
		s.set(t)
		s.set(t, nfs("127.0.0.1:20049"))
		s.with(func() { s.dead["unix"] = false })
		s.made()
		pass(DefaultInterval)
		want(t, "calls", s.made(), "DUMP")
		want(t, "registered", s.has(), ours)
	})
}

// TestSetKept: what rpcbind doesn't let go of is told of once.
func TestSetKept(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		s.log.told()
		s.with(func() { s.raw[procUnset] = []byte{0, 0, 0, 0} })
		s.set(t)
		want(t, "log", s.log.told(), "WARN still registered with rpcbind rpcbind keeps program 100003 version 3 on rdma, registered by "+
			s.list[0].owner+": remove it as that user or as root by rpcinfo -d 100003 3")
		s.made()
		pass(2 * DefaultInterval)
		want(t, "calls", s.made(), "")
	})
}

// TestCloseAfterSet removes what a Set that nobody looked at yet let go.
func TestCloseAfterSet(t *testing.T) {
	play(t, nil, func(t *testing.T, s *scene) {
		if err := s.Set(nil); err != nil {
			t.Fatal(err)
		}
		if err := s.Registrar.Close(t.Context()); err != nil {
			t.Error(err)
		}
		want(t, "registered", s.has(), "")
	})
}
