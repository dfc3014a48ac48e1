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
// been freed, and every part closed.
func Gate() goleak.Option {
	return goleak.Cleanup(func(code int) {
		if s := offheap.Read(); s.Regions > 0 && code == 0 {
			fmt.Fprintf(os.Stderr, "offheap: %d regions of %d bytes were not freed\n", s.Regions, s.Used)
			code = 1
		}
		if s := offheap.Read(); s.Kept > 0 && code == 0 {
			fmt.Fprintf(os.Stderr, "offheap: %d bytes are still kept for parts\n", s.Kept)
			code = 1
		}
		os.Exit(code)
	})
}
