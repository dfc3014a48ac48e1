package session_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/console/session"
)

func dial(auth.Identity) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// test runs f with a store, on a clock of its own.
func test(t *testing.T, f func(*testing.T, *session.Store)) {
	synctest.Test(t, func(t *testing.T) {
		s := session.New(dial)
		defer s.Close()
		f(t, s)
	})
}

var from = session.Browser{Address: "192.0.2.1:5"}

func client(name string) auth.Identity { return auth.Identity{Name: name, Role: auth.Operator} }

func token(t *testing.T, s *session.Store, name string) string {
	t.Helper()
	text, expires, err := s.Token(client(name))
	if err != nil || time.Until(expires) != session.TokenTime {
		t.Fatal(expires, err)
	}
	return text
}

func begin(t *testing.T, s *session.Store, name string) (secret string, c *session.Session) {
	t.Helper()
	secret, c, err := s.Begin(token(t, s, name), from)
	if err != nil {
		t.Fatal(err)
	}
	return secret, c
}

// use makes a request and returns whether the session exists.
func use(s *session.Store, secret string) bool {
	c := s.Use(secret, from)
	if c == nil {
		return false
	}
	c.Done()
	return true
}

func TestTokenWorksOnce(t *testing.T) {
	test(t, func(t *testing.T, s *session.Store) {
		text := token(t, s, "olga")
		secret, c, err := s.Begin(text, from)
		if err != nil || !use(s, secret) || use(s, text) || use(s, "") {
			t.Fatal(err)
		}
		if c.Client.Name != "olga" || c.Client.Role != auth.Operator || c.Client.Origin != "console "+c.ID+" 192.0.2.1:5" {
			t.Errorf("%+v", c.Client)
		}
		for _, text := range []string{text, secret, "", "guess"} {
			if _, _, err := s.Begin(text, from); !errors.Is(err, session.ErrToken) {
				t.Errorf("token %q: %v", text, err)
			}
		}
	})
}

func TestTokenExpires(t *testing.T) {
	test(t, func(t *testing.T, s *session.Store) {
		text := token(t, s, "olga")
		time.Sleep(session.TokenTime)
		if _, _, err := s.Begin(text, from); !errors.Is(err, session.ErrToken) {
			t.Error(err)
		}
	})
}

// TestIdleSessionEnds: also without a request that notices it.
func TestIdleSessionEnds(t *testing.T) {
	test(t, func(t *testing.T, s *session.Store) {
		secret, c := begin(t, s, "olga")
		time.Sleep(session.IdleTime - time.Second)
		if !use(s, secret) {
			t.Fatal("ended too early")
		}
		time.Sleep(session.IdleTime - time.Second)
		if !use(s, secret) {
			t.Fatal("ended too early after a request")
		}
		time.Sleep(session.IdleTime)
		if use(s, secret) {
			t.Error("an idle session works")
		}
		time.Sleep(session.IdleTime)
		synctest.Wait()
		if len(s.List()) != 0 || c.Conn.GetState() != connectivity.Shutdown {
			t.Errorf("an idle session remains: %v", s.List())
		}
	})
}

// TestOldSessionEnds: although it is in use.
func TestOldSessionEnds(t *testing.T) {
	test(t, func(t *testing.T, s *session.Store) {
		secret, c := begin(t, s, "olga")
		stream := s.Use(secret, from)
		defer stream.Done()
		time.Sleep(session.LongTime - time.Second)
		if !use(s, secret) || c.Conn.GetState() == connectivity.Shutdown {
			t.Error("ended too early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if use(s, secret) || c.Conn.GetState() != connectivity.Shutdown {
			t.Error("an old session works")
		}
	})
}

func TestEnd(t *testing.T) {
	test(t, func(t *testing.T, s *session.Store) {
		first, a := begin(t, s, "olga")
		time.Sleep(time.Second)
		second, b := begin(t, s, "olga")
		if all := s.List(); len(all) != 2 || all[0].ID != a.ID || all[1].ID != b.ID || all[0].Expires != a.Began.Add(session.IdleTime) {
			t.Errorf("%+v", all)
		}
		if !s.End(a.ID) || s.End(a.ID) || use(s, first) || !use(s, second) || a.Conn.GetState() != connectivity.Shutdown {
			t.Error("End ended the wrong session")
		}
	})
}

// TestBounds: a client's oldest session and token go for its next; others are
// refused when there is no room.
func TestBounds(t *testing.T) {
	test(t, func(t *testing.T, s *session.Store) {
		first, _ := begin(t, s, "olga")
		old := token(t, s, "olga")
		for range session.PerClient {
			time.Sleep(time.Millisecond)
			token(t, s, "olga")
		}
		if _, _, err := s.Begin(old, from); !errors.Is(err, session.ErrToken) {
			t.Errorf("the oldest token: %v", err)
		}
		for range session.PerClient {
			time.Sleep(time.Millisecond)
			begin(t, s, "olga")
		}
		if len(s.List()) != session.PerClient || use(s, first) {
			t.Errorf("olga has %d sessions", len(s.List()))
		}
		late := token(t, s, "late")
		for i := range session.Most - session.PerClient {
			begin(t, s, fmt.Sprint("client ", i/session.PerClient))
		}
		if _, _, err := s.Begin(late, from); !errors.Is(err, session.ErrFull) {
			t.Errorf("one session too many: %v", err)
		}
		time.Sleep(session.TokenTime)
		for i := range session.Most {
			token(t, s, fmt.Sprint("client ", i/session.PerClient))
		}
		if _, _, err := s.Token(client("late")); !errors.Is(err, session.ErrFull) {
			t.Errorf("one token too many: %v", err)
		}
		time.Sleep(session.TokenTime)
		token(t, s, "late") // the others have expired
	})
}

// TestBoundToCertificate: a stolen cookie is of no use without the certificate's
// key, and the session ends with the certificate.
func TestBoundToCertificate(t *testing.T) {
	with := func(text string) session.Browser {
		return session.Browser{Certificate: &x509.Certificate{Raw: []byte(text), NotAfter: time.Now().Add(time.Minute)}}
	}
	test(t, func(t *testing.T, s *session.Store) {
		own, other := with("olga's"), with("eve's")
		byCertificate, c, err := s.BeginAs(client("olga"), own)
		if err != nil {
			t.Fatal(err)
		}
		byToken, _, err := s.Begin(token(t, s, "olga"), own)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{byCertificate, byToken} {
			if s.Use(secret, from) != nil || s.Use(secret, other) != nil {
				t.Error("it works without the certificate")
			}
			if c := s.Use(secret, own); c == nil {
				t.Error("it does not work with the certificate")
			} else {
				c.Done()
			}
		}
		free, _ := begin(t, s, "olga")
		if c := s.Use(free, own); c == nil {
			t.Error("a session that began without a certificate needs one")
		} else {
			c.Done()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.Use(byCertificate, own) != nil || c.Conn.GetState() != connectivity.Shutdown || !use(s, free) {
			t.Error("the session does not end with the certificate")
		}
	})
}
