//go:build rdmacore && cgo

package providers

import (
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore"
)

func init() {
	makers[rdmacore.ProviderName] = maker{func(o *Options) (rdmacm.Provider, error) {
		p, err := rdmacore.New(rdmacore.Config{Logger: o.Logger, Tuning: o.Rdmacore})
		if err != nil {
			return nil, err
		}
		return p, nil
	}, rdmacore.Descriptors}
	describe = rdmacore.Describe
}
