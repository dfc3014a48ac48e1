package grpcapi

// messages makes a message of each element.
func messages[T, M any](all []T, message func(*T) M) []M {
	out := make([]M, len(all))
	for i := range all {
		out[i] = message(&all[i])
	}
	return out
}
