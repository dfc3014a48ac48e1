package main

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// consoles are browsers at the web console, without the drawing: they open the streams
// of its views, read them as JSON, and ask for the lists as often as the page does.
type consoles struct {
	base    string
	cookies []*http.Cookie // of the sessions
	http    http.Client
	read    atomic.Int64 // bytes
	answers atomic.Int64 // of requests that are not streams
}

// sessionsOfOne is how many sessions one client may have.
const sessionsOfOne = 8

// login begins the sessions that the consoles share.
func (c *consoles) login(t testing.TB, conn *grpc.ClientConn) {
	t.Helper()
	c.http.Transport = &http.Transport{MaxIdleConnsPerHost: *loadConsoles}
	t.Cleanup(c.http.CloseIdleConnections)
	for range min(*loadConsoles, sessionsOfOne) {
		res := have(rdmadv1.NewConsoleServiceClient(conn).OpenConsole(t.Context(), &rdmadv1.OpenConsoleRequest{}))(t)
		base, token, _ := strings.Cut(res.GetAddress(), "/#token=")
		c.base = base
		answer, err := c.post(t.Context(), 0, "/session", "", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
		if err != nil || len(answer.Cookies()) != 1 {
			t.Fatalf("login: %v, %v", answer, err)
		}
		answer.Body.Close()
		c.cookies = append(c.cookies, answer.Cookies()...)
	}
}

// post makes a request of one of the consoles.
func (c *consoles) post(ctx context.Context, console int, path, kind, body string, change ...func(*http.Request)) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Origin", c.base)
	r.Header.Set("Content-Type", kind)
	// As browsers, try again if rdmad closes an idle connection at this moment.
	r.Header["Idempotency-Key"] = nil
	if path != "/session" { // a login ends the session that it comes from
		r.AddCookie(c.cookies[console%len(c.cookies)])
	}
	for _, f := range change {
		f(r)
	}
	return c.http.Do(r)
}

const totals = "time,seconds,total,listeners,serviceTimeUsP50,serviceTimeUsP99"

// views are what the views of the page open, and what they ask for how often.
func views(id string) []struct {
	streams map[string]string
	every   time.Duration
	ask     []string
} {
	return []struct {
		streams map[string]string
		every   time.Duration
		ask     []string
	}{
		{map[string]string{"TelemetryService/WatchTelemetry": `{"read_mask": "` + totals + `"}`}, 5 * time.Second,
			[]string{"StatusService/GetStatus", "StatusService/ListConditions", "ListenerService/ListListeners", "ListenerService/ListServices", "ConnectorService/ListConnectors"}},
		{map[string]string{
			"TelemetryService/WatchTelemetry":    `{"read_mask": "` + totals + `,connections", "busy_only": true, "interval": "2s"}`,
			"ConnectionService/WatchConnections": `{"read_mask": "id,listener,peer,rpcVersion,state,callsInProgress,creditsGranted,errors,extensions", "batches": true}`,
		}, 0, nil},
		{map[string]string{"TelemetryService/WatchTelemetry": `{"read_mask": "` + totals + `,connections", "connection_ids": ["` + id + `"]}`}, time.Second,
			[]string{"ConnectionService/GetConnection"}},
	}
}

// open opens the consoles until ctx ends: the three views in turn. It returns when they
// have their first samples.
func (c *consoles) open(ctx context.Context, t *testing.T, id string, beside *sync.WaitGroup) {
	all := views(id)
	var begun sync.WaitGroup
	defer begun.Wait()
	for i := range *loadConsoles {
		view := all[i%len(all)]
		beside.Go(func() { c.stream(ctx, t, i, "SettingsService/WatchSettings", "{}", func() {}) })
		for method, request := range view.streams {
			begun.Add(1)
			beside.Go(func() { c.stream(ctx, t, i, method, request, begun.Done) })
		}
		if view.every > 0 {
			beside.Go(func() { c.ask(ctx, t, i, view.every, view.ask, id) })
		}
	}
}

// stream reads a stream until ctx ends. It calls begun once: after the first bytes, or
// without any.
func (c *consoles) stream(ctx context.Context, t *testing.T, console int, method, request string, begun func()) {
	began := sync.OnceFunc(begun)
	defer began()
	message := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))) + request
	answer, err := c.post(ctx, console, "/rdmad.v1."+method, "application/connect+json", message)
	if err == nil {
		defer answer.Body.Close()
		if answer.Header.Get("Rdmad-Stream") == "" {
			t.Errorf("console %d: %s has not begun: %s", console, method, answer.Status)
		}
		var n int64
		if n, err = io.CopyN(io.Discard, answer.Body, 1); err == nil {
			began()
			n, err = io.Copy(io.Discard, answer.Body)
		}
		c.read.Add(n)
	}
	if ctx.Err() == nil {
		t.Errorf("console %d: %s ended: %v", console, method, err)
	}
}

// ask makes requests again and again until ctx ends.
func (c *consoles) ask(ctx context.Context, t *testing.T, console int, every time.Duration, methods []string, id string) {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		for _, method := range methods {
			request := "{}"
			if method == "ConnectionService/GetConnection" {
				request = `{"id": "` + id + `"}`
			}
			answer, err := c.post(ctx, console, "/rdmad.v1."+method, "application/json", request)
			if ctx.Err() != nil {
				return
			}
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Errorf("console %d: %s: %v, %v", console, method, answer, err)
				return
			}
			n, _ := io.Copy(io.Discard, answer.Body) // cut off when ctx ends
			answer.Body.Close()
			c.read.Add(n)
			c.answers.Add(1)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}
