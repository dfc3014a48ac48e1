package softiwarp

import (
	"testing"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

func TestMain(m *testing.M) { verbstest.Main(m) }

// conform runs the suite between two providers with the given settings.
func conform(t *testing.T, active, passive Config, connections int) {
	verbstest.Run(t, verbstest.Target{
		Connections: connections,
		New: func(t testing.TB) (rdmacm.Provider, rdmacm.Provider) {
			return must(New(active))(t), must(New(passive))(t)
		},
	})
}

func TestConformance(t *testing.T) { conform(t, Config{}, Config{}, 1000) }

// TestConformanceCRC: one side asks for CRC, which is enough for both.
func TestConformanceCRC(t *testing.T) { conform(t, Config{CRC: true}, Config{}, 50) }
