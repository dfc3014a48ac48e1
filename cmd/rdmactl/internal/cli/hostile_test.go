package cli

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// coloured answers with texts that control a terminal.
type coloured struct {
	rdmadv1.UnimplementedConfigurationServiceServer
	rdmadv1.UnimplementedConsoleServiceServer
}

const red = "service a: /srv/\x1b[31m: no such directory"

func (coloured) ExportConfiguration(context.Context, *rdmadv1.ExportConfigurationRequest) (*rdmadv1.ExportConfigurationResponse, error) {
	return &rdmadv1.ExportConfigurationResponse{LeftOut: []string{red}}, nil
}

func (coloured) ImportConfiguration(context.Context, *rdmadv1.ImportConfigurationRequest) (*rdmadv1.ImportConfigurationResponse, error) {
	return &rdmadv1.ImportConfigurationResponse{Kept: []string{red}, Unchanged: new(true)}, nil
}

func (coloured) ListConsoleSessions(context.Context, *rdmadv1.ListConsoleSessionsRequest) (*rdmadv1.ListConsoleSessionsResponse, error) {
	return &rdmadv1.ListConsoleSessionsResponse{Sessions: []*rdmadv1.ConsoleSession{{Id: "1", Actor: red}}}, nil
}

// TestTextsBesideTables: what rdmad says beside an answer, and in a completion, does not control the terminal.
func TestTextsBesideTables(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s, served := grpc.NewServer(), make(chan error, 1)
	rdmadv1.RegisterConfigurationServiceServer(s, coloured{})
	rdmadv1.RegisterConsoleServiceServer(s, coloured{})
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Stop()
		<-served
	}()
	file := filepath.Join(t.TempDir(), "empty.yaml")
	if err := replaceFile(file, nil); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"export", "import " + file, "__complete console sessions end"} {
		var said strings.Builder
		args := append(strings.Fields(command), "--addr", "unix://"+l.Addr().String())
		if strings.HasPrefix(command, "__") {
			args = append(args, "")
			Run(t.Context(), "test", args, &said, io.Discard)
		} else {
			Run(t.Context(), "test", args, io.Discard, &said)
		}
		if !strings.Contains(said.String(), "service a: /srv/[31m: no such directory\n") {
			t.Errorf("%s: %q", command, said.String())
		}
	}
}
