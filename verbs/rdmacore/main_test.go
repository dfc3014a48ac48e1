//go:build rdmacore && cgo

package rdmacore

import (
	"testing"

	"github.com/rdmad/rdmad/verbs/verbstest"
)

func TestMain(m *testing.M) { verbstest.Main(m) }
