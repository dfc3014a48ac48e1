package rpcrdma_test

import (
	"testing"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

func newSoftiwarp(t testing.TB) rdmacm.Provider {
	p, err := softiwarp.New(softiwarp.Config{})
	must(t, err)
	return p
}
