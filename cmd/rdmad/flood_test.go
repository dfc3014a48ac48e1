package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFloodsAreFewLines: peers that send garbage, and a client that connects again
// and again, leave a short log, and its counts include each of them.
func TestFloodsAreFewLines(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.dir, "rdmad.yaml")
	text := have(os.ReadFile(file))(t)
	text = bytes.Replace(text, []byte("{path: srv}"), []byte(`{path: srv, tcp_listen: "127.0.0.1:0"}`), 1)
	must(t, os.WriteFile(file, text, 0o600))
	p := r.start()
	const bad, reconnects = 1000, 200
	for range bad {
		for _, address := range []string{p.addresses["echo"], p.addresses["tcp_data"]} {
			nc := have(net.Dial("tcp", address))(t)
			io.WriteString(nc, strings.Repeat("\x7fx", 64))
			nc.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, nc) // until rdmad has closed it
			nc.Close()
		}
	}
	for range reconnects {
		must(t, r.dial(p.addresses["echo"]).Close())
	}
	p.end(t, "TERM", 0)
	const most = 16 << 10
	if n := len(p.Log()); n > most {
		t.Errorf("%d bytes of log, more than %d:\n%s", n, most, p.Log()[:most])
	}
	counts := map[string]int{}
	for line := range strings.Lines(p.Log()) {
		l := struct {
			Msg   string
			More  int
			Peers map[string]int
		}{More: 1}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		counts[l.Msg] += l.More
		if l.More > 1 && l.Peers["127.0.0.1"] != l.More {
			t.Errorf("not counted by peer: %s", line)
		}
	}
	for message, want := range map[string]int{
		"softiwarp: connection request dropped": bad,
		"RPC over TCP connection cut":           bad,
		"connection up":                         reconnects,
		"connection down":                       reconnects,
	} {
		if counts[message] != want {
			t.Errorf("%q: %d logged or counted, not %d", message, counts[message], want)
		}
	}
	t.Logf("%d bytes of log", len(p.Log()))
}
