package dataplane

import "cmp"

// CompareID orders connection ids, which are numbers, by the time at which they were given.
func CompareID(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
