package fair

import "time"

// Nap is how long Walk sleeps. The Go runtime makes a millisecond of less, when a processor has
// nothing else to do.
const Nap = time.Millisecond

// strides is the number of elements between two looks at the clock.
const strides = 16

// Walk calls f for each element, in order. It is for walks over all connections, which take
// milliseconds when there are thousands. After each stretch of time it sleeps: a processor that
// always has something to do does not look for input from the network. The caller holds no
// lock that a call needs.
func Walk[T any](all []T, stretch time.Duration, f func(T)) {
	began := time.Now()
	for i, t := range all {
		if i%strides == strides-1 && time.Since(began) >= stretch {
			time.Sleep(Nap)
			began = time.Now()
		}
		f(t)
	}
}
