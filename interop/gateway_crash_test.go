package interop

import "testing"

// crash kills ganesha under load. The clients' connections to rdmad end with it;
// they take their opens and locks up again when ganesha is back.
func (gw *gateway) crash(t *testing.T, version string) {
	m := gw.mount(t, version, "/mnt/crash")
	file := "kept-" + version
	m.client(t, "echo text >"+file)
	lock := m.startLock(t, file, 0, 4).wait(t)
	testCrash(t, m.work(t, "crash-"+version), func(t *testing.T) {
		gw.g.MustRun(t, mountTime, "kill -9 $(cat /run/ganesha/pid)")
		gw.g.ServeGanesha(t)
	})
	other := gw.other(t, m)
	if other.tryLock(t, file, 0, 1) {
		t.Error("a lock was lost when the server was started again")
	}
	lock.release(t)
	if !other.tryLock(t, file, 0, 1) {
		t.Error("a lock that was given back is still there")
	}
}
