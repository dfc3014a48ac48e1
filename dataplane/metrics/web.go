package metrics

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
)

// CheckWebConfig checks a file with TLS and users for the metrics, and the files that it
// names. "" means no file.
func CheckWebConfig(file string) error { return web.Validate(file) }

// WebCertificate returns the file with the certificate of the metrics, or "" if they have no
// TLS. The error is that their configuration cannot be read.
func WebCertificate(file string) (string, error) {
	var c struct {
		TLS struct {
			Cert string `yaml:"cert_file"`
		} `yaml:"tls_server_config"`
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, &c)
	}
	if err != nil || c.TLS.Cert == "" || filepath.IsAbs(c.TLS.Cert) {
		return c.TLS.Cert, err
	}
	return filepath.Join(filepath.Dir(file), c.TLS.Cert), nil
}

// serveWeb answers on l with TLS and for users as the file says. It reads the file and the
// certificates again for new connections and requests.
func (s *Server) serveWeb(l net.Listener) error {
	return web.Serve(l, &s.http, &web.FlagConfig{WebConfigFile: &s.web}, slog.New(problems{s.log.Handler()}))
}

// problems is a handler of warnings and errors. rdmad has lines of its own for the rest.
type problems struct{ slog.Handler }

// Enabled implements slog.Handler.
func (p problems) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && p.Handler.Enabled(ctx, level)
}
