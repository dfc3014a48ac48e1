package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/manager"
)

// opening is what "rdmad check" tries of a configuration: to read and to bind
// what it names. Defaults are not tried. Nothing is left behind.
type opening struct {
	c         *config.Config
	providers providers.Set
	log       *slog.Logger
	running   bool // an rdmad has the state directory, and probably the addresses
	errs      config.Errors
}

// tryOpening gives what can't be had as config.Errors; nil for nothing.
func tryOpening(ctx context.Context, c *config.Config) error {
	o := &opening{c: c, providers: make(providers.Set), log: slog.New(slog.DiscardHandler), running: isRunning(c.State.Path)}
	defer o.providers.Close(o.log)
	o.certificates()
	o.exports()
	o.addresses(ctx)
	if len(o.errs) == 0 {
		return nil
	}
	return o.errs
}

func (o *opening) note(key string, err error) {
	if err != nil {
		o.errs = append(o.errs, &config.Error{Origin: o.c.Origins.Of(key), Key: key, Msg: err.Error()})
	}
}

func (o *opening) certificates() {
	if t := o.c.Control.TLS; t != nil {
		_, err := auth.LoadCertificates(auth.Files{Cert: t.Cert, Key: t.Key, ClientCA: t.ClientCA}, o.log)
		o.note("control.tls", err)
	}
}

func (o *opening) exports() {
	for i, s := range o.c.Services {
		key := fmt.Sprintf("services[%d].nfs.path", i)
		if s.NFS == nil || o.c.Origins.Of(key) == (config.Origin{}) {
			continue
		}
		err := readExport(s.NFS.Path)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s does not exist; make the directory, or mount the file system that it is on", s.NFS.Path)
		}
		o.note(key, err)
	}
}

// addresses binds each address that the configuration names for a moment.
func (o *opening) addresses(ctx context.Context) {
	for _, one := range o.c.Addresses() {
		if o.c.Origins.Of(one.Key) == (config.Origin{}) || strings.HasPrefix(one.Address, "unix:") {
			continue
		}
		err := o.bind(ctx, one)
		if err == nil || o.running && errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		o.note(one.Key, fmt.Errorf("can't listen on %s: %w", one.Address, manager.BindReason(err)))
	}
}

func (o *opening) bind(ctx context.Context, a config.Address) error {
	if a.Provider == "" {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "tcp", a.Address)
		if err == nil {
			err = l.Close()
		}
		return err
	}
	p, err := o.providers.Open(a.Provider, providers.Options{Logger: o.log, Rdmacore: o.c.Providers.Rdmacore})
	if err != nil {
		return err
	}
	l, err := p.Listen(ctx, a.Address)
	if err == nil {
		err = l.Close()
	}
	return err
}

// isRunning says whether the process that took a state directory last is there.
func isRunning(state string) bool {
	text, err := os.ReadFile(filepath.Join(state, "lock"))
	if err != nil {
		return errors.Is(err, fs.ErrPermission) // it can't be known
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
