// Package offheaptest fails test programs that do not free all memory outside the
// Go heap.
package offheaptest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs/offheap"
)

// Gate is an option of goleak.VerifyTestMain: after the tests, every region has
// been freed.
func Gate() goleak.Option {
	return goleak.Cleanup(func(code int) {
		if s := offheap.Read(); s.Regions > 0 && code == 0 {
			fmt.Fprintf(os.Stderr, "offheap: %d regions of %d bytes were not freed\n", s.Regions, s.Used)
			code = 1
		}
		os.Exit(code)
	})
}
