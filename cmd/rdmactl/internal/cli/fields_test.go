package cli

import (
	"testing"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestFieldOfANewerRdmad: a value that this rdmactl does not know has its number.
func TestFieldOfANewerRdmad(t *testing.T) {
	c := &rdmadv1.Connection{State: 99}
	d := c.ProtoReflect().Descriptor().Fields().ByName("state")
	if got := fieldText(c.ProtoReflect().Get(d), d); got != "99" {
		t.Errorf("%q", got)
	}
}
