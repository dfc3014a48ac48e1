package dataplane

import "cmp"

// CompareID orders connection ids by the time at which they were given. Ids are numbers.
func CompareID(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
