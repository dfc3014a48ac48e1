//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestCompletionsDuringAPost: polling does not wait for a post that is in progress.
func TestCompletionsDuringAPost(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
	defer pair.Close()
	pair.B.PostRecv(verbs.RecvWR{ID: 1})
	pair.A.Post(verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.SendSignaled})
	s := &pair.A.QP.(*queuePair).sq
	s.posting.Lock()
	defer s.posting.Unlock()
	pair.A.Done(2, verbs.WCSend)
}
