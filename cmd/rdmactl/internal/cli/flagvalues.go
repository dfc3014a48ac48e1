package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/controlplane/settings"
)

// checkedText is a flag whose text is checked before anything is sent.
type checkedText struct {
	text  *string
	check func(string) error
}

// String implements pflag.Value.
func (c *checkedText) String() string { return *c.text }

// Type implements pflag.Value.
func (*checkedText) Type() string { return "string" }

// Set implements pflag.Value.
func (c *checkedText) Set(text string) error {
	*c.text = text
	return c.check(text)
}

func checkScope(text string) error {
	if text == "" { // such as a variable that is not set: not all connections
		return errors.New("is empty; global is everything")
	}
	if _, err := settings.ParseScope(text); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "scope: "))
	}
	return nil
}

// peerFlag adds --peer.
func peerFlag(cmd *cobra.Command, peer *string) {
	check := func(text string) error {
		if _, ok := settings.ParsePrefix(text); !ok && text != "" {
			return fmt.Errorf("%q is not an address or CIDR, such as 192.0.2.0/24", text)
		}
		return nil
	}
	cmd.Flags().Var(&checkedText{peer, check}, "peer", "only peers within this address or CIDR")
}
