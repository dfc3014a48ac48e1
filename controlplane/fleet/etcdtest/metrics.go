package etcdtest

import (
	"bufio"
	"context"
	"net/http"
	"strconv"
	"strings"
)

// Metrics returns the metrics of a member that have no labels.
func (c *Cluster) Metrics(ctx context.Context, m *Member) (map[string]float64, error) {
	secure, err := c.Security("root")
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Endpoint+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	all := make(map[string]float64)
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			all[name] = value
		}
	}
	return all, lines.Err()
}
