package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// TestSlowCallsOverTCP: a slow call over TCP is logged with its service and its client.
func TestSlowCallsOverTCP(t *testing.T) {
	r := newRig(t)
	file := filepath.Join(r.dir, "rdmad.yaml")
	text := have(os.ReadFile(file))(t)
	text = bytes.Replace(text, []byte("{path: srv}"), []byte(`{path: srv, tcp_listen: "127.0.0.1:0"}`), 1)
	must(t, os.WriteFile(file, append(text, "slow_call: 1ms\n"...), 0o600))
	p := r.start()
	nc := have(net.Dial("tcp", p.addresses["tcp_data"]))(t)
	defer nc.Close()
	records := oncrpc.NewRecordReader(nc, 1<<10)
	msg := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 7, Program: 100003, Version: 3})
	record := append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...)
	logged := func() bool {
		for line := range strings.Lines(p.Log()) {
			if strings.Contains(line, `"msg":"slow call"`) && strings.Contains(line, `"server":"data"`) &&
				strings.Contains(line, `"peer":"`+nc.LocalAddr().String()+`"`) && strings.Contains(line, `"call":"NFS NULL"`) {
				return true
			}
		}
		return false
	}
	// A client that sends slowly. An rdmad that has no processor meanwhile finds the whole
	// call and does not know, so that the client tries again.
	for began := time.Now(); !logged(); {
		if time.Since(began) > startTimeout {
			t.Fatalf("no such line:\n%s", p.Log())
		}
		for _, part := range [][]byte{record[:8], record[8:]} {
			if _, err := nc.Write(part); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Millisecond)
		}
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Read(nil); err != nil {
			t.Fatal(err)
		}
	}
	p.end(t, "TERM", 0)
}
