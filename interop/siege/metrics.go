package siege

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

var metricsAttacks = []Attack{
	{Name: "metrics-silent", Does: "400 connections to the metrics port that say nothing; rdmad may have 256 descriptors", Files: 256,
		run: keep(400, toMetrics, hold)},
	{Name: "metrics-idle", Does: "400 connections of scrapers that scraped once", run: keep(400, toMetrics, holdScraped)},
	{Name: "metrics-scrapers", Does: "64 scrapers that scrape as fast as they can",
		run: metricsScrapers},
}

func toMetrics(ctx context.Context, s *slot) (*net.TCPConn, error) {
	return dial(ctx, fromOne, s.target.Metrics)
}

// scraper returns an HTTP client of the metrics port with one connection. The
// connection closes when ctx ends.
func scraper(ctx context.Context, from net.IP) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxConnsPerHost: 1,
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, from, address)
		},
	}}
}

// scrape gets the metrics.
func scrape(ctx context.Context, c *http.Client, address string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("metrics: %s", res.Status)
	}
	return b, err
}

func holdScraped(_ context.Context, s *slot, conn *net.TCPConn) error {
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: rdmad\r\n\r\n"); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return err
	}
	return s.hold(conn)
}

func metricsScrapers(ctx context.Context, f *field) error {
	return f.slots(ctx, 64, func(ctx context.Context, s *slot) error {
		c := scraper(ctx, fromOne)
		defer c.CloseIdleConnections()
		for {
			if _, err := scrape(ctx, c, f.target.Metrics); err != nil {
				return err
			}
			if !s.isUp {
				s.up()
			}
			f.calls.Add(1)
		}
	})
}
