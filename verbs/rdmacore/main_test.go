//go:build rdmacore && cgo

package rdmacore

import (
	"testing"

	"github.com/rdmad/rdmad/verbs/verbstest"
)

var must = verbstest.Must

// child, if set, ends a child process that must not run the tests.
var child = func() {}

func TestMain(m *testing.M) {
	child()
	verbstest.Main(m)
}
