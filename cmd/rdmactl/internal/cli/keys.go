package cli

import (
	"slices"
	"strings"

	"github.com/rdmad/rdmad/controlplane/settingsproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// unset as a value takes a setting away from a scope.
const unset = "unset"

// findKey looks a dotted name up.
func findKey(name string) (settings.Key, error) {
	if k, ok := settings.ParseKey(name); ok {
		return k, nil
	}
	return 0, usagef("there is no setting %q%s", name, orDidYouMean(name, keyNames(), "; rdmactl settings get lists them"))
}

// checkKeys refuses what is neither a setting nor the first part of some.
func checkKeys(names []string) error {
	for _, name := range names {
		if settings.Match(name) != 0 {
			continue
		}
		if _, err := findKey(name); err != nil {
			return err
		}
	}
	return nil
}

// keyNames are the names of all settings.
func keyNames() (names []string) {
	for k := range settings.NumKeys {
		names = append(names, k.String())
	}
	return names
}

// orDidYouMean suggests the nearest name, or says something else.
func orDidYouMean(name string, names []string, otherwise string) string {
	if near := nearest(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return otherwise
}

// nearest is the name that takes the fewest edits to get to, if they are
// few.
func nearest(name string, names []string) string {
	best, at := "", 4
	for _, n := range names {
		if d := distance(name, n); d < at && d < len(n) {
			best, at = n, d
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// values are what a key can be set to, for completion; nil for numbers.
func values(k settings.Key) []string {
	texts := k.Row().Texts()
	if texts == nil {
		return nil
	}
	return append(slices.Clone(texts), unset)
}

// assignments reads KEY=VALUE arguments, whose values are not checked for their ranges. taken are the names of those
// with the value unset.
func assignments(args []string) (set settings.Values, taken []string, err error) {
	seen := make(map[string]bool)
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		if !ok {
			return set, nil, usagef("%q is not KEY=VALUE, such as inline.send_max=2048", arg)
		}
		k, err := findKey(name)
		if err != nil {
			return set, nil, err
		}
		if seen[name] {
			return set, nil, usagef("%s is given twice", name)
		}
		seen[name] = true
		if text == unset {
			taken = append(taken, name)
			continue
		}
		value, err := k.Row().Parse(text)
		if err != nil {
			return set, nil, usagef("%v", err)
		}
		set.Set(k, value)
	}
	return set, taken, nil
}

// parseAssignments reads KEY=VALUE arguments for a request.
func parseAssignments(args []string) (*rdmadv1.Settings, []string, error) {
	set, taken, err := assignments(args)
	return settingsproto.Message(&set), taken, err
}
