package interop

import "testing"

// cephAttributeSizes are of extended attributes; ganesha 4.3 reads values of
// less than 8 KiB (XDR_STRING_MAXLEN, gsh_rpc.h).
var cephAttributeSizes = []string{"0", "1", "1000", "4000", "8191"}

// ceph does what ganesha can on a file system of Ceph's alone: it recalls a
// delegation, and it has extended attributes.
func (gw *gateway) ceph(t *testing.T) {
	behind := gw.startCeph(t)
	m := behind.mount(t, "4.2", "/mnt/ceph")
	t.Run("recall", func(t *testing.T) { behind.recall(t, m) })
	t.Run("xattrs", func(t *testing.T) { testXattrs(t, m.work(t, "xattrs"), cephAttributeSizes) })
	m.checkStats(t)
}

// startCeph starts ganesha on the host, and an rdmad before it for clients in
// the guest. What is said of the server's side is what a client sees that goes
// straight there, over TCP.
func (gw *gateway) startCeph(t *testing.T) *gateway {
	t.Helper()
	s := startCeph(t)
	const straight = "/mnt/straight"
	e := &exported{g: gw.g, dir: straight, shared: gw.e.shared, tcp: portOf(s.Address)}
	behind := &gateway{g: gw.g, e: e, via: gw.via}
	if gw.r != nil {
		behind.r = startRdmadAs(t, gw.g.ShareDir, forwarding(s.Address))
		e.rdma, e.r = portOf(behind.r.rdma), behind.r
	}
	gw.setUniqueID(t, "straight")
	newMountAt(t, gw.g, e.at("4.2"), overTCP, straight)
	gw.setUniqueID(t, "")
	return behind
}
