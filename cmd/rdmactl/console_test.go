package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// browse begins a session of the console as a browser does, and puts its ID into
// SESSION: browse.
func browse(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+ts.Getenv("RDMACTL_ADDR"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	client := rdmadv1.NewConsoleServiceClient(conn)
	address, err := client.OpenConsole(ctx, &rdmadv1.OpenConsoleRequest{})
	ts.Check(err)
	origin, token, _ := strings.Cut(address.GetAddress(), "/#token=")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+"/session", nil)
	ts.Check(err)
	r.Header.Set("Origin", origin)
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	ts.Check(err)
	res.Body.Close()
	all, err := client.ListConsoleSessions(ctx, &rdmadv1.ListConsoleSessionsRequest{})
	ts.Check(err)
	if len(all.GetSessions()) != 1 {
		ts.Fatalf("%s: %d sessions", res.Status, len(all.GetSessions()))
	}
	ts.Setenv("SESSION", all.GetSessions()[0].GetId())
}
