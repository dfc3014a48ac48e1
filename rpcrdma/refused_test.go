package rpcrdma_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/loglimit"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestRefusedMessages: the log has the peer's address and the reason for messages
// that are refused or dropped, in few lines however many messages there are.
func TestRefusedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		handler := loglimit.New(slog.NewTextHandler(&log, nil))
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, log: slog.New(handler)})
		r := b.dialRaw(kernelPrivateData)
		conn := <-b.conns
		expect := func(n int, words ...string) {
			t.Helper()
			got := log.Take()
			if len(got) != n {
				t.Fatalf("%d lines, want %d: %q", len(got), n, got)
			}
			for _, want := range words {
				if !strings.Contains(got[n-1], want) {
					t.Fatalf("logged %q, want %q in the last", got, want)
				}
			}
		}
		peer := r.id.LocalAddr()
		r.exchange(message(rpcrdma1.Header{XID: 1}, procNull))
		expect(0)
		r.post(message(rpcrdma1.Header{XID: 2, Version: 2}, procNull))
		r.receive()
		expect(1, "peer="+peer.String(), "unsupported version")
		for i := range 50 {
			r.post(message(rpcrdma1.Header{XID: uint32(i), Version: 2}, procNull))
			r.receive()
			r.post(make([]byte, 3))
		}
		synctest.Wait()
		expect(9, "peer="+peer.String(), "unsupported version")
		time.Sleep(loglimit.Period)
		synctest.Wait()
		expect(1, "more=91", "peers."+peer.Addr().String()+"=91")
		time.Sleep(loglimit.Period)
		r.exchange(message(rpcrdma1.Header{XID: 2, Proc: rpcrdma1.NoMsg}, procNull))
		r.id.Disconnect()
		<-conn.Done()
		expect(1, "position-zero chunk")
	})
}

// TestFirstMessageOfAnotherVersion: a client learns the versions of a server in this way, so
// it is neither an error nor a line above level debug. The same message later is both.
func TestFirstMessageOfAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		r := b.dialRaw(kernelPrivateData)
		conn := <-b.conns
		for i, want := range []struct {
			level  string
			errors uint64
		}{{"DEBUG", 0}, {"WARN", 1}} {
			r.post(message(rpcrdma1.Header{XID: uint32(i), Version: 2}, procNull))
			r.receive()
			synctest.Wait()
			if got := log.Take(); len(got) != 1 || !strings.Contains(got[0], "level="+want.level+` msg="message of the peer refused or dropped"`) {
				t.Errorf("message %d: logged %q", i, got)
			}
			if n := conn.Stats().Errors; n != want.errors {
				t.Errorf("message %d: %d errors", i, n)
			}
		}
		r.id.Disconnect()
		<-conn.Done()
	})
}
