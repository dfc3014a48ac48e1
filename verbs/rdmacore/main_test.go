//go:build rdmacore && cgo

package rdmacore

import (
	"testing"

	"github.com/rdmad/rdmad/verbs/verbstest"
)

// child, when set, ends a process that is not to run the tests.
var child = func() {}

func TestMain(m *testing.M) {
	child()
	verbstest.Main(m)
}
