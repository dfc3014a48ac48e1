package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/rdmad/rdmad/dataplane/connlimit"
)

// TestSilentScrapers: 400 silent connections of one host take no more than that
// host's limit, and another host's scrape is answered at once. Idle connections
// make room.
func TestSilentScrapers(t *testing.T) {
	scrapers := connlimit.New(time.Now(), connlimit.Config{Limits: DefaultScrapers()})
	s := NewServer(prometheus.NewRegistry(), healthy(), scrapers, "", slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	for range 400 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	other := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	scraper, err := other.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer scraper.Close()
	answer := bufio.NewReader(scraper)
	for range 2 { // the connection stays
		fmt.Fprint(scraper, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(answer, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	st := scrapers.Stats()
	if limit := DefaultScrapers().PerKey; st.Held > limit+1 || st.Refused[connlimit.PerKey]+st.Evicted[connlimit.PerKey]+st.Evicted[connlimit.HalfOpen] == 0 {
		t.Errorf("%+v", st)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = answer.ReadByte()
	}()
	at := time.Now()
	for up := true; up; { // the client has the answer a moment before the server is idle
		at = at.Add(DefaultScrapers().Idle)
		scrapers.Age(at)
		select {
		case <-closed:
			up = false
		case <-time.After(time.Millisecond):
		}
	}
	if st := scrapers.Stats(); st.Evicted[connlimit.Idle] == 0 {
		t.Errorf("the idle connection was not closed for being idle: %+v", st)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if st := scrapers.Stats(); st.Held != 0 || st.Leaving != 0 {
		t.Errorf("connections hold places: %+v", st)
	}
}

// pipes is a listener on pipes in place of sockets, for synctest's clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestIdlestScraperGoes: the connection whose last request ended first loses its
// place, not the one that connected first.
func TestIdlestScraperGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scrapers := connlimit.New(time.Now(), connlimit.Config{Limits: connlimit.Limits{Total: 2}})
		s := NewServer(prometheus.NewRegistry(), healthy(), scrapers, "", slog.New(slog.DiscardHandler))
		l, served := make(pipes), make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		connect := func() net.Conn {
			client, server := net.Pipe()
			l <- server
			t.Cleanup(func() { client.Close() })
			return client
		}
		scrape := func(c net.Conn) error {
			if _, err := fmt.Fprint(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				return err
			}
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, res.Body)
			synctest.Wait()
			return errors.Join(err, res.Body.Close())
		}
		first, second := connect(), connect()
		for _, c := range []net.Conn{first, second, first} {
			if err := scrape(c); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(connlimit.Grace)
		if err := scrape(connect()); err != nil {
			t.Error(err)
		}
		if err := scrape(second); err == nil {
			t.Error("the idlest kept its place")
		}
		if err := scrape(first); err != nil {
			t.Errorf("the one that was used later: %v", err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestPorts(t *testing.T) {
	table := connlimit.New(time.Now(), connlimit.Config{Limits: connlimit.Limits{Total: 7}})
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewPorts(map[string]*connlimit.Table{"metrics": table}))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	for _, f := range families {
		m := f.GetMetric()
		switch f.GetName() {
		case "rdmad_port_connections_limit":
			if len(m) != 1 || m[0].GetGauge().GetValue() != 7 {
				t.Errorf("%v", f)
			}
		case "rdmad_port_connections_refused_total", "rdmad_port_connections_evicted_total":
			if len(m) != int(connlimit.Reasons) {
				t.Errorf("%v", f)
			}
		}
	}
}
