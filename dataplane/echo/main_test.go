package echo_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, offheaptest.Gate()) }
