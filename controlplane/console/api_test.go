package console_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// client is a browser's session, without the browser.
type client struct {
	t      testing.TB
	base   string
	cookie *http.Cookie
}

// served runs a control plane with a console and some connections.
func served(t testing.TB, connections int) *page {
	p := &page{t: t, rate: auth.Rate{PerSecond: 1e6, Burst: 1e6}} // benchmarks make many requests
	p.serve(auth.Admin, "127.0.0.1:0")
	t.Cleanup(func() { p.stop() })
	for i := range connections {
		p.plane.Connect(planetest.Peer{ID: fmt.Sprint(i + 10), Listener: "nfs", Address: fmt.Sprintf("192.0.2.9:%d", i+1), Stats: rpcrdma.Stats{Calls: uint64(i)}})
	}
	return p
}

// session begins a session.
func (p *page) session() *client {
	p.t.Helper()
	res, err := rdmadv1.NewConsoleServiceClient(p.client).OpenConsole(p.t.Context(), &rdmadv1.OpenConsoleRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	base, token, _ := strings.Cut(res.GetAddress(), "/#token=")
	c := &client{t: p.t, base: base}
	answer := c.post("/session", "", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	answer.Body.Close()
	if len(answer.Cookies()) != 1 {
		p.t.Fatalf("login: %s", answer.Status)
	}
	c.cookie = answer.Cookies()[0]
	return c
}

func (c *client) post(path, kind, body string, change ...func(*http.Request)) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Origin", c.base)
	r.Header.Set("Content-Type", kind)
	if c.cookie != nil {
		r.AddCookie(c.cookie)
	}
	for _, f := range change {
		f(r)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// ask makes a request that is no stream.
func (c *client) ask(method, request string) (status int, text []byte) {
	c.t.Helper()
	return c.askAs("application/json", method, request)
}

func (c *client) askAs(kind, method, request string) (status int, text []byte) {
	c.t.Helper()
	res := c.post("/rdmad.v1."+method, kind, request)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, text
}

// watch opens a stream.
func (c *client) watch(method, request string) io.ReadCloser {
	c.t.Helper()
	res := c.post("/rdmad.v1."+method, "application/connect+json", string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))))+request)
	if res.Header.Get("Rdmad-Stream") == "" {
		c.t.Fatalf("%s has not begun: %s", method, res.Status)
	}
	return res.Body
}

// next reads a message of a stream.
func next(stream io.Reader, m proto.Message) (text []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return nil, err
	}
	text = make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(stream, text); err != nil || head[0] != 0 {
		return nil, fmt.Errorf("flags %d, %w", head[0], err)
	}
	return text, protojson.Unmarshal(text, m)
}

// TestAnswersOfTheAPI: browsers get what clients of gRPC get, with the names that rdmactl prints,
// and all browsers the same, large or small.
func TestAnswersOfTheAPI(t *testing.T) {
	p := served(t, 100)
	a, b := p.session(), p.session()
	want, err := rdmadv1.NewConnectionServiceClient(p.client).ListConnections(t.Context(), &rdmadv1.ListConnectionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, c := range []*client{a, b} {
			var got rdmadv1.ListConnectionsResponse
			status, text := c.ask("ConnectionService/ListConnections", "{}")
			if err := protojson.Unmarshal(text, &got); err != nil || status != http.StatusOK || !proto.Equal(&got, want) || len(got.GetConnections()) != 102 {
				t.Fatalf("%d %s, %v", status, text, err)
			}
			if !json.Valid(text) || !bytes.Contains(text, []byte(`"rpc_version"`)) || !bytes.Contains(text, []byte(`"sends_with_invalidate"`)) {
				t.Errorf("%s", text)
			}
			if _, again := c.askAs("application/json; charset=utf-8", "ConnectionService/ListConnections", "{}"); !bytes.Equal(again, text) {
				t.Errorf("with a character set %s", again)
			}
			status, text = c.askAs("application/proto", "ConnectionService/ListConnections", "")
			if err := proto.Unmarshal(text, &got); err != nil || status != http.StatusOK || !proto.Equal(&got, want) {
				t.Errorf("protobuf: %d %q, %v", status, text, err)
			}
			if status, text := c.ask("ConnectionService/GetConnection", `{"id": "none"}`); status != http.StatusNotFound || !bytes.Contains(text, []byte("not_found")) {
				t.Errorf("%d %s", status, text)
			}
			status, text = c.ask("ConnectionService/GetConnection", `{"id": "10"}`)
			var one rdmadv1.GetConnectionResponse
			if err := protojson.Unmarshal(text, &one); err != nil || status != http.StatusOK || one.GetConnection().GetPeer() != "192.0.2.9:1" {
				t.Errorf("%d %s, %v", status, text, err)
			}
		}
	}
}

// traffic counts calls on the connections of served.
func (p *page) traffic(connections int) {
	for i := range connections {
		p.plane.Count(fmt.Sprint(i+10), func(c *dataplane.ConnInfo) {
			c.Stats.Calls += uint64(i)
			c.Stats.Replies += uint64(i)
			c.Stats.BytesReceived += uint64(100 * i)
			c.Stats.BytesSent += uint64(200 * i)
			c.Stats.Sends += uint64(i)
		})
	}
}

// TestStreamsOfTheAPI: browsers at the same view get the same samples.
func TestStreamsOfTheAPI(t *testing.T) {
	const connections = 100
	p := served(t, connections)
	var streams []io.Reader
	for range 3 { // two of which take their samples in the same half of the interval
		s := p.session().watch("TelemetryService/WatchTelemetry", `{"interval": "0.1s"}`)
		defer s.Close()
		streams = append(streams, s)
	}
	seen := make(map[string][]byte) // by when a sample begins and ends
	for same := 0; same < 2; {
		p.traffic(connections)
		for _, s := range streams {
			var m rdmadv1.WatchTelemetryResponse
			text, err := next(s, &m)
			if err != nil || len(m.GetConnections()) != connections+2 {
				t.Fatalf("%s, %v", text, err)
			}
			at := fmt.Sprint(m.GetTime().AsTime(), m.GetSeconds())
			if other := seen[at]; other == nil {
				seen[at] = text
			} else if same++; !bytes.Equal(text, other) {
				t.Errorf("one gets %s, the other %s", other, text)
			}
		}
	}
}

// BenchmarkStreams reads samples of all connections by 17 browsers. An operation is one sample of
// one of them.
func BenchmarkStreams(b *testing.B) {
	const connections, browsers = 500, 17
	p := served(b, connections)
	var sessions []*client
	for range 8 { // one client has no more
		sessions = append(sessions, p.session())
	}
	var streams []io.ReadCloser
	for i := range browsers {
		streams = append(streams, sessions[i%len(sessions)].watch("TelemetryService/WatchTelemetry", `{"interval": "1s"}`))
	}
	skip := func(s io.Reader) error {
		var head [5]byte
		if _, err := io.ReadFull(s, head[:]); err != nil {
			return err
		}
		_, err := io.CopyN(io.Discard, s, int64(binary.BigEndian.Uint32(head[1:])))
		return err
	}
	for _, s := range streams {
		if err := skip(s); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	before := spent()
	b.ResetTimer()
	var reading sync.WaitGroup
	for i, s := range streams {
		reading.Go(func() {
			for range (b.N + i) / browsers {
				if i == 0 {
					p.traffic(connections)
				}
				if err := skip(s); err != nil {
					b.Error(err)
				}
			}
		})
	}
	reading.Wait()
	b.StopTimer()
	b.ReportMetric(float64((spent()-before).Microseconds())/float64(b.N), "cpu-us/op")
	for _, s := range streams {
		s.Close()
	}
}

// listed reads the list of connections that a stream begins with. It returns the number of
// messages.
func listed(stream io.Reader, connections int) (messages int, err error) {
	var head [5]byte
	var text []byte
	for n := 0; n < connections; messages++ {
		if _, err := io.ReadFull(stream, head[:]); err != nil {
			return messages, err
		}
		text = slices.Grow(text[:0], int(binary.BigEndian.Uint32(head[1:])))[:binary.BigEndian.Uint32(head[1:])]
		if _, err := io.ReadFull(stream, text); err != nil {
			return messages, err
		}
		n += bytes.Count(text, []byte(`"rpc_version"`))
	}
	return messages, nil
}

// TestListComesInFewMessages: that of the page, in batches.
func TestListComesInFewMessages(t *testing.T) {
	const connections = 500
	p := served(t, connections)
	c := p.session()
	for request, want := range map[string]int{`{}`: connections + 2, `{"batches": true}`: 4} {
		s := c.watch("ConnectionService/WatchConnections", request)
		defer s.Close()
		if n, err := listed(s, connections+2); err != nil || n != want {
			t.Errorf("%s: %d messages, want %d, %v", request, n, want, err)
		}
	}
}

// BenchmarkOpening opens the view of all connections in 17 browsers at once. An operation is the
// opening by one of them, until it has read the list.
func BenchmarkOpening(b *testing.B) {
	const connections, browsers = 500, 17
	const fields = `"read_mask": "id,listener,peer,rpcVersion,state,callsInProgress,creditsGranted,errors,extensions"`
	p := served(b, connections)
	var sessions []*client
	for range 8 { // one client has no more
		sessions = append(sessions, p.session())
	}
	for _, request := range []string{"{" + fields + "}", "{" + fields + `, "batches": true}`} {
		b.Run(fmt.Sprintf("batches=%v", strings.Contains(request, "batches")), func(b *testing.B) {
			b.ReportAllocs()
			before := spent()
			for n := 0; n < b.N; n += browsers {
				var opening sync.WaitGroup
				for i := range min(browsers, b.N-n) {
					opening.Go(func() {
						s := sessions[i%len(sessions)].watch("ConnectionService/WatchConnections", request)
						defer s.Close()
						if _, err := listed(s, connections+2); err != nil {
							b.Error(err)
						}
					})
				}
				opening.Wait()
			}
			b.ReportMetric(float64((spent()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// spent is the processor time of this process.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
