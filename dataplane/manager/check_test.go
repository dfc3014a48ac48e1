package manager

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

// explained is an error of a provider that has more to say than its number.
type explained struct{ syscall.Errno }

func (e explained) Error() string     { return "nobody has it" }
func (e explained) BindReason() error { return e }

func TestBindReason(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}, "address already in use"},
		{&net.OpError{Op: "listen", Err: &net.DNSError{Err: "no answer", Name: "nas"}}, "no such host"},
		{fmt.Errorf("listen on 192.0.2.1:20049: %w", explained{syscall.EADDRNOTAVAIL}), "nobody has it"},
		{errors.New("closed"), "closed"},
	} {
		if got := BindReason(c.err); got.Error() != c.want {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
}
