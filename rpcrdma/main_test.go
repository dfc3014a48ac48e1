package rpcrdma_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // services panic on purpose
	goleak.VerifyTestMain(m, offheaptest.Gate(), goleak.IgnoreCurrent())
}
