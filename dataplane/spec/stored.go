package spec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// StoredProblems returns all that is not valid in what operators added and changed, each with the
// element that has it. Whether a change goes with the configuration file is not checked.
func StoredProblems(all *All) (out []string) {
	out = slices.Concat(
		addedProblems("service", all.Services), addedProblems("listener", all.Listeners), addedProblems("connector", all.Connectors),
		changedProblems[Service]("service", all.Changed.Services), changedProblems[Listener]("listener", all.Changed.Listeners),
		changedProblems[Connector]("connector", all.Changed.Connectors),
	)
	for _, text := range deltaProblems[Limits](all.Changed.Limits) {
		out = append(out, "limits."+text)
	}
	return out
}

func addedProblems[S Named](what string, list []S) (out []string) {
	for i := range list {
		for key, text := range Problems(&list[i]) {
			out = append(out, fmt.Sprintf("%s %s: %s: %s", what, list[i].Called(), key, text))
		}
	}
	return out
}

func changedProblems[S any](what string, changed map[string]Delta) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		for _, text := range deltaProblems[S](changed[name]) {
			out = append(out, fmt.Sprintf("%s %s: %s", what, name, text))
		}
	}
	return out
}

// deltaProblems returns what is wrong with the values of a delta, each for itself.
func deltaProblems[T any](d Delta) (out []string) {
	for f := range Of[T]() {
		value := d[f.Path]
		if value == nil || f.Section() || f.Items() {
			continue
		}
		var one T
		if err := Decode(nested(f.Path, value), &one); err != nil {
			continue // Apply reports a damaged delta
		}
		if v := f.In(reflect.ValueOf(&one), false); v.IsValid() && !v.IsZero() {
			if text := f.Problem(v); text != "" {
				out = append(out, f.Path+": "+text)
			}
		}
	}
	return out
}
