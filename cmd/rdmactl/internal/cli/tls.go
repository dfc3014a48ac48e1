package cli

import (
	"crypto/tls"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/contexts"
	"github.com/rdmad/rdmad/controlplane/auth"
)

// tlsFlags say how to reach a control plane with mutual TLS. Without any of
// them there is none.
type tlsFlags struct{ contexts.TLS }

// flags registers them; the environment gives their defaults.
func (t *tlsFlags) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&t.Cert, "tls-cert", os.Getenv("RDMACTL_TLS_CERT"), "`FILE` with your certificate (PEM)")
	f.StringVar(&t.Key, "tls-key", os.Getenv("RDMACTL_TLS_KEY"), "`FILE` with the key of --tls-cert")
	f.StringVar(&t.CA, "tls-ca", os.Getenv("RDMACTL_TLS_CA"), "`FILE` with the CA of rdmad's certificate (default: the system's CAs)")
	f.StringVar(&t.ServerName, "tls-server-name", os.Getenv("RDMACTL_TLS_SERVER_NAME"), "name in rdmad's certificate (default: the host of --addr)")
	for _, file := range []string{"tls-cert", "tls-key", "tls-ca"} {
		must(root.MarkPersistentFlagFilename(file))
	}
}

// check looks at what belongs together.
func (t *tlsFlags) check() error {
	if (t.Cert == "") != (t.Key == "") {
		return usagef("--tls-cert and --tls-key need each other")
	}
	if t.Cert == "" && (t.CA != "" || t.ServerName != "") {
		return usagef("--tls-ca and --tls-server-name need --tls-cert and --tls-key: rdmad identifies clients by certificate")
	}
	return nil
}

// none refuses the flags on a Unix socket, where they would protect nothing.
// Values from the environment are for other addresses.
func (t *tlsFlags) none() error {
	for _, f := range []struct{ name, value, env string }{
		{"--tls-cert", t.Cert, "RDMACTL_TLS_CERT"},
		{"--tls-ca", t.CA, "RDMACTL_TLS_CA"},
		{"--tls-server-name", t.ServerName, "RDMACTL_TLS_SERVER_NAME"},
	} {
		if f.value != "" && f.value != os.Getenv(f.env) {
			return usagef("%s: a Unix socket has no TLS", f.name)
		}
	}
	t.Cert, t.Key = "", ""
	return nil
}

// replace replaces values by those of flags that are given.
func (t *tlsFlags) replace(flags *pflag.FlagSet, given *tlsFlags) {
	for name, value := range map[string]struct{ to, from *string }{
		"tls-cert": {&t.Cert, &given.Cert}, "tls-key": {&t.Key, &given.Key},
		"tls-ca": {&t.CA, &given.CA}, "tls-server-name": {&t.ServerName, &given.ServerName},
	} {
		if flags.Changed(name) {
			*value.to = *value.from
		}
	}
}

// credentials reads the files.
func (t *tlsFlags) credentials() (credentials.TransportCredentials, error) {
	if t.Cert == "" {
		return insecure.NewCredentials(), nil
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ServerName: t.ServerName}
	if t.CA != "" {
		if cfg.RootCAs, err = auth.ReadCAs(t.CA); err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
	}
	return credentials.NewTLS(cfg), nil
}
