package main

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// metric reads a metric.
func (p *process) metric(t *testing.T, name string) float64 {
	t.Helper()
	res, err := http.Get("http://" + p.addresses["metrics"] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return have(strconv.ParseFloat(value, 64))(t)
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
