package notify

import (
	"fmt"
	"net"

	"github.com/coreos/go-systemd/v22/activation"
)

// Sockets returns the listening sockets that the service manager bound for rdmad, in its
// order, or none. The caller closes them. Only the first call returns them. If a descriptor is
// not a listening socket, Sockets returns an error and no sockets.
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
