package loopback

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

func TestAddresses(t *testing.T) {
	f := NewFabric(FabricConfig{})
	server := New(Config{Fabric: f})
	client := New(Config{Fabric: f, Host: netip.MustParseAddr("192.0.2.7")})
	for listen, dial := range map[string]string{
		"127.0.0.1:20049":  "localhost:20049",
		"localhost:20050":  "127.0.0.1:20050",
		":20051":           "198.51.100.1:20051",
		"[::]:20052":       "[2001:db8::1]:20052",
		"[2001:db8::2]:99": "[2001:db8::2]:99",
	} {
		l, err := server.Listen(t.Context(), listen)
		must(t, err)
		done := make(chan *verbstest.Side)
		go func() {
			s, err := verbstest.Accept(t.Context(), t, l, verbstest.Options{})
			should(t, err)
			done <- s
		}()
		a, err := verbstest.Dial(t.Context(), t, client, dial, verbstest.Options{})
		if err != nil {
			t.Fatalf("%s at %s: %v", dial, listen, err)
		}
		b := <-done
		if b.ID.RemoteAddr().Addr() != netip.MustParseAddr("192.0.2.7") || b.ID.LocalAddr() != a.ID.RemoteAddr() {
			t.Errorf("passive side at %v, connected from %v", b.ID.LocalAddr(), b.ID.RemoteAddr())
		}
		a.Close()
		b.Close()
		should(t, l.Close())
	}
}

func TestBadAddresses(t *testing.T) {
	p := New(Config{})
	for _, a := range []string{"", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000", "127.0.0.1:-1", "server:20049", "[::1:20049"} {
		if _, err := p.Listen(t.Context(), a); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("listen on %q: %v", a, err)
		}
		if _, err := p.Resolve(t.Context(), a); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("resolve %q: %v", a, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Listen(ctx, ":0"); !errors.Is(err, context.Canceled) {
		t.Errorf("listen: %v", err)
	}
	if _, err := p.Resolve(ctx, ":1"); !errors.Is(err, context.Canceled) {
		t.Errorf("resolve: %v", err)
	}
	must(t, p.Close())
	if _, err := p.Listen(t.Context(), ":0"); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("listen on a closed provider: %v", err)
	}
	if _, err := p.Resolve(t.Context(), ":1"); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("resolve on a closed provider: %v", err)
	}
}

// For a request beyond the backlog the oldest is rejected, and those whose sender gave up
// are never seen.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{})
		p.backlog = 2
		l, err := p.Listen(t.Context(), "127.0.0.1:0")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var given [3]chan error
		for i := range given {
			given[i] = make(chan error)
			go func() {
				_, err := verbstest.Dial(ctx, t, p, l.Addr().String(), verbstest.Options{})
				given[i] <- err
			}()
			synctest.Wait()
		}
		var rejected *rdmacm.RejectedError
		if err := <-given[0]; !errors.As(err, &rejected) || len(rejected.PrivateData) > 0 {
			t.Errorf("connect before the backlog was full: %v", err)
		}
		cancel()
		for _, c := range given[1:] {
			if err := <-c; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled connect: %v", err)
			}
		}
		short, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		if id, err := l.GetRequest(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("get request: %v, %v", id, err)
		}
		should(t, errors.Join(l.Close(), p.Close()))
	})
}

// A device says what it lacks, and refuses it.
func TestLesserDevice(t *testing.T) {
	p := New(Config{NoWindows: true, NoSendInvalidate: true, MaxReads: 3, DeviceName: "small0"})
	a := p.Device().Attr()
	if a.MemWindowType2B || a.SendInvalidate || a.MaxQPRdAtom != 3 || a.MaxQPInitRdAtom != 3 || a.Name != "small0" {
		t.Errorf("attributes %+v", a)
	}
	pair := verbstest.NewPair(t, p, p, verbstest.Options{})
	if ird, ord := pair.A.ID.Negotiated(); ird != 3 || ord != 3 {
		t.Errorf("IRD %d, ORD %d", ird, ord)
	}
	for _, wr := range []verbs.SendWR{verbstest.SendInvalidate(1, 2), verbstest.Bind(1, verbs.BindInfo{})} {
		if n, err := pair.A.QP.PostSend([]verbs.SendWR{wr}); n != 0 || !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("operation %d: took %d, %v", wr.Op, n, err)
		}
	}
}

// Without ORD a Read fails at once.
func TestNoReadsNegotiated(t *testing.T) {
	p := New(Config{MaxReads: 1})
	l, err := p.Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	go func() {
		id, err := l.GetRequest(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := verbstest.NewSide(t, id, verbstest.Options{}, nil, nil); err != nil {
			t.Error(err)
		}
		should(t, id.Accept(t.Context(), rdmacm.ConnParam{ResponderResources: -1}))
	}()
	a, err := verbstest.Dial(t.Context(), t, p, l.Addr().String(), verbstest.Options{})
	must(t, err)
	defer a.Close()
	a.Post(verbstest.Read(1, a.Remote(0), a.SGE(0, 8)))
	if wc := a.Sent(); wc.Status != verbs.WCLocQPOpErr {
		t.Errorf("read: %+v (%v)", wc, wc.Status)
	}
	a.Ended()
}
