package interop

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// guests is how many tests with guests run at once, unless -parallel says something else.
// A guest often waits. One test's guests take up to 5 GB.
const guests = "2"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", guests)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}
