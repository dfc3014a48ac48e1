package desired_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashEnv); path != "" {
		changeForEver(path)
	}
	goleak.VerifyTestMain(m)
}
