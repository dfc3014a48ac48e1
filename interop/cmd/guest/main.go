// Command guest boots the kernel guest of the interoperability tests and
// connects its shell to the terminal. "poweroff -f" ends it.
//
//	go run ./interop/cmd/guest [-newer] [-rdma siw|crc] [-share DIR] [-forward PORT,PORT]
//	go run ./interop/cmd/guest [-newer] -build
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/interop/guest/image"
)

// flags are the command-line flags.
type flags struct {
	build   bool
	newer   bool
	rdma    string
	share   string
	forward []int
}

func main() {
	var f flags
	flag.BoolVar(&f.build, "build", false, "only build the guest's image when it is missing")
	flag.BoolVar(&f.newer, "newer", false, "boot the newer kernel, Linux 6.12")
	flag.StringVar(&f.rdma, "rdma", "", "bring up siw0: siw as it is, or crc for the build that requires CRC32C")
	flag.StringVar(&f.share, "share", ".", "directory that is /host in the guest")
	flag.Func("forward", "TCP ports of the guest to reach from this machine, with commas", f.parseForward)
	flag.Parse()
	if err := run(context.Background(), f); err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
}

func (f *flags) parseForward(list string) error {
	for _, text := range strings.Split(list, ",") {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("bad port %q", text)
		}
		f.forward = append(f.forward, int(port))
	}
	return nil
}

func run(ctx context.Context, f flags) error {
	kernel := image.Stock
	if f.newer {
		kernel = image.Newer
	}
	img, err := guest.Prepare(ctx, kernel, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	})
	if err != nil || f.build {
		return err
	}
	dir, err := os.MkdirTemp("", "rdmad-agent-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	agent, err := guest.BuildAgent(ctx, dir)
	if err != nil {
		return err
	}
	g, err := guest.Start(ctx, img, agent, f.share, guest.Options{Shell: true, Forward: f.forward})
	if err != nil {
		return err
	}
	if err := prepareShell(ctx, g, f); err != nil {
		return fmt.Errorf("%w; %w", err, g.Stop())
	}
	<-g.Done()
	return g.Stop()
}

// prepareShell prepares what the flags ask for, while the shell runs.
func prepareShell(ctx context.Context, g *guest.Guest, f flags) error {
	for _, port := range f.forward {
		fmt.Fprintf(os.Stderr, "guest port %d is 127.0.0.1:%d\r\n", port, g.HostPort(port))
	}
	variants := map[string]guest.SIW{"siw": guest.SIWPlain, "crc": guest.SIWRequireCRC}
	siw, known := variants[f.rdma]
	if !known {
		if f.rdma != "" {
			return fmt.Errorf("-rdma %s: want siw or crc", f.rdma)
		}
		return nil
	}
	result, err := g.Run(ctx, guest.RDMAScript(siw))
	if err != nil || result.Code != 0 {
		return fmt.Errorf("bringing up siw0: code %d, %w\n%s", result.Code, err, result.Stderr)
	}
	return nil
}
