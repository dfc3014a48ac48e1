//go:build !amd64

package fleet

import (
	"errors"
	"time"
)

func setClock(int, time.Duration) error { return errors.ErrUnsupported }
