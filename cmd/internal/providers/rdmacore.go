//go:build rdmacore && cgo

package providers

import (
	"log/slog"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore"
)

func init() {
	makers[rdmacore.ProviderName] = func(log *slog.Logger) (rdmacm.Provider, error) {
		p, err := rdmacore.New(rdmacore.Config{Logger: log})
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	describe = rdmacore.Describe
}
