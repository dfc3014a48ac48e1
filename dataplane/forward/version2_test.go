package forward

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestVersion2: files and callbacks travel the same way over version 2.
func TestVersion2(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		address, dir := nfsUpstream(t)
		data := random(300_001)
		if err := os.WriteFile(filepath.Join(dir, "f"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		c := newRigWith(t, p, rpcrdma.ExtV2|rpcrdma.ExtBackchannel, address).dial()
		if v := c.Info().RPCVersion; v != 2 {
			t.Fatalf("version %d", v)
		}
		n := newNFSClient(t, c)
		if got, placed := n.read(n.lookup("f"), 0, len(data)); !placed || !bytes.Equal(got, data) {
			t.Errorf("%d bytes read, placed %v", len(got), placed)
		}
		n.write(n.create("g"), 0, data)
		if got, err := os.ReadFile(filepath.Join(dir, "g")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes written, %v", len(got), err)
		}
	})
	u := newUpstream(t)
	c := newRigWith(t, loopback.New(loopback.Config{}), rpcrdma.ExtV2|rpcrdma.ExtBackchannel, u.address).dial(answering(new(callbacks)))
	up := u.accept()
	openSession(t, c, up, callback(7, "1st."))
	if got, want := string(up.next()), string(success(7, []byte("answer: 1st."))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
