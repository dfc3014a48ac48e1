package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// tlsFlags say how to reach a control plane with mutual TLS. Without any of
// them there is none.
type tlsFlags struct {
	cert, key, ca, serverName string
}

// flags registers them; the environment gives their defaults.
func (t *tlsFlags) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&t.cert, "tls-cert", os.Getenv("RDMACTL_TLS_CERT"), "`FILE` with your certificate (PEM)")
	f.StringVar(&t.key, "tls-key", os.Getenv("RDMACTL_TLS_KEY"), "`FILE` with the key of --tls-cert")
	f.StringVar(&t.ca, "tls-ca", os.Getenv("RDMACTL_TLS_CA"), "`FILE` with the CA of rdmad's certificate (default: the system's CAs)")
	f.StringVar(&t.serverName, "tls-server-name", os.Getenv("RDMACTL_TLS_SERVER_NAME"), "name in rdmad's certificate (default: the host of --addr)")
	for _, file := range []string{"tls-cert", "tls-key", "tls-ca"} {
		must(root.MarkPersistentFlagFilename(file))
	}
}

// check looks at what belongs together.
func (t *tlsFlags) check() error {
	if (t.cert == "") != (t.key == "") {
		return usagef("--tls-cert and --tls-key need each other")
	}
	if t.cert == "" && (t.ca != "" || t.serverName != "") {
		return usagef("--tls-ca and --tls-server-name need --tls-cert and --tls-key: rdmad identifies clients by certificate")
	}
	return nil
}

// none refuses the flags on a Unix socket, where they would protect nothing.
// Values from the environment are for other addresses.
func (t *tlsFlags) none() error {
	for _, f := range []struct{ name, value, env string }{
		{"--tls-cert", t.cert, "RDMACTL_TLS_CERT"},
		{"--tls-ca", t.ca, "RDMACTL_TLS_CA"},
		{"--tls-server-name", t.serverName, "RDMACTL_TLS_SERVER_NAME"},
	} {
		if f.value != "" && f.value != os.Getenv(f.env) {
			return usagef("%s: a Unix socket has no TLS", f.name)
		}
	}
	t.cert, t.key = "", ""
	return nil
}

// replace replaces values by those of flags that are given.
func (t *tlsFlags) replace(flags *pflag.FlagSet, given *tlsFlags) {
	for name, value := range map[string]struct{ to, from *string }{
		"tls-cert": {&t.cert, &given.cert}, "tls-key": {&t.key, &given.key},
		"tls-ca": {&t.ca, &given.ca}, "tls-server-name": {&t.serverName, &given.serverName},
	} {
		if flags.Changed(name) {
			*value.to = *value.from
		}
	}
}

// credentials reads the files.
func (t *tlsFlags) credentials() (credentials.TransportCredentials, error) {
	if t.cert == "" {
		return insecure.NewCredentials(), nil
	}
	pair, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, ServerName: t.serverName}
	if t.ca != "" {
		text, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate", t.ca)
		}
	}
	return credentials.NewTLS(cfg), nil
}
