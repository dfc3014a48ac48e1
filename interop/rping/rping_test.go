package rping

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

func newProvider(t *testing.T, crc bool) *softiwarp.Provider {
	t.Helper()
	p, err := softiwarp.New(softiwarp.Config{CRC: crc})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { verbstest.CloseProvider(t, p) })
	return p
}

// TestPing runs this package's client and server with each other.
func TestPing(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, size := range []int{1, 2, 64, 4096, MaxSize - 1, MaxSize} {
			t.Run(fmt.Sprintf("crc=%t/%d", crc, size), func(t *testing.T) { testPing(t, crc, size) })
		}
	}
}

func testPing(t *testing.T, crc bool, size int) {
	const count = 20
	p := newProvider(t, crc)
	l, err := p.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error)
	go func() { served <- serveOne(t, l, count) }()
	c, err := Dial(t.Context(), p, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Ping(t.Context(), size, count), c.Close()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func serveOne(t *testing.T, l rdmacm.Listener, want int) error {
	id, err := l.GetRequest(t.Context())
	if err != nil {
		return err
	}
	pings, err := Serve(t.Context(), id)
	if err == nil && pings != want {
		err = fmt.Errorf("%d pings were answered, want %d", pings, want)
	}
	return err
}

func TestPingRefusesSize(t *testing.T) {
	for _, size := range []int{0, -1, MaxSize + 1} {
		if err := new(Client).Ping(t.Context(), size, 1); err == nil {
			t.Errorf("%d bytes were accepted", size)
		}
	}
}

func TestDialNobodyThere(t *testing.T) {
	p := newProvider(t, false)
	l, err := p.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), p, address); !errors.Is(err, rdmacm.ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
}
