package notify

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets are the listening sockets that the service manager bound for rdmad,
// in its order; none when there is no such thing. They are the caller's to
// close, and can be asked for once. A descriptor that is no listening socket
// is an error, and none is kept.
func Sockets() ([]net.Listener, error) {
	var all []net.Listener
	var bad error
	for _, f := range activation.Files(true) {
		l, err := net.FileListener(f) // a copy of the descriptor
		f.Close()
		if err != nil {
			bad = fmt.Errorf("socket %q from the service manager: %w", f.Name(), err)
			continue
		}
		all = append(all, l)
	}
	if bad != nil {
		for _, l := range all {
			l.Close()
		}
		return nil, bad
	}
	return all, nil
}
