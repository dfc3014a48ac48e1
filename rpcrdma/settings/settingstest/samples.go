// Package settingstest provides values of the live settings for tests.
package settingstest

import "github.com/rdmad/rdmad/rpcrdma/settings"

// Samples returns values of a key: all of a flag or choice; for a number, the bounds of its
// range, the values next to them, and one in between.
func Samples(k settings.Key) []uint32 {
	r := k.Row()
	if texts := r.Texts(); texts != nil {
		all := make([]uint32, len(texts))
		for i := range all {
			all[i] = uint32(i)
		}
		return all
	}
	step := max(r.Multiple, 1)
	return []uint32{r.Min, r.Min + step, (r.Min + r.Max) / 2 / step * step, r.Max - step, r.Max}
}

// With returns a value of a key together with the values of the keys that it needs.
func With(k settings.Key, value uint32) (v settings.Values) {
	v.Set(k, value)
	if value != 0 {
		need(&v, k)
	}
	for _, bound := range k.Row().AtMost {
		v.Set(bound, bound.Row().Max)
	}
	return v
}

// need turns on the keys that a key needs, recursively.
func need(v *settings.Values, k settings.Key) {
	for _, base := range k.Row().Needs {
		v.Set(base, 1)
		need(v, base)
	}
}
