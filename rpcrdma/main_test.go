package rpcrdma_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // services panic on purpose
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}
