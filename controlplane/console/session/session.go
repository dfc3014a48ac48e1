// Package session keeps the sessions of the web console, and the one-time
// tokens that begin them.
//
// A client of the control plane asks for a token. A browser exchanges it for a
// session, which has the client's name and role. A browser with a client
// certificate needs no token. A session that began with a certificate is bound to
// it: it works only on connections with that certificate, and ends with it. A
// session also ends when it is idle, when it is old, or when End is called. A
// Store keeps only hashes of tokens and of the sessions' secrets.
package session

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane/auth"
)

// Bounds of a Store.
const (
	TokenTime = 2 * time.Minute  // for a browser to use a token
	IdleTime  = 30 * time.Minute // of a session without requests
	LongTime  = 12 * time.Hour   // of a session, whatever it does
	Most      = 64               // sessions, and as many tokens
	PerClient = 8                // sessions of one client, and as many tokens; the oldest is ended for another
)

// Errors of a Store.
var (
	ErrFull  = errors.New("too many console sessions; an admin can end some: rdmactl console sessions end ID")
	ErrToken = errors.New("the token is not valid: it was used, or has expired; run rdmactl console again")
)

// Dial makes a connection to the control plane as a client.
type Dial func(auth.Identity) (*grpc.ClientConn, error)

// Store keeps tokens and sessions. Any goroutine may use it.
type Store struct {
	dial Dial
	name string // begins the secrets of its sessions

	mu       sync.Mutex
	tokens   map[hash]token
	sessions map[hash]*Session
}

type hash [sha256.Size]byte

type token struct {
	client  auth.Identity
	expires time.Time
}

// Browser is the connection of a browser.
type Browser struct {
	Address     string
	Certificate *x509.Certificate // verified; nil without one
}

// fingerprint of the browser's certificate, or zero.
func (b Browser) fingerprint() hash {
	if b.Certificate == nil {
		return hash{}
	}
	return sha256.Sum256(b.Certificate.Raw)
}

// Session is a session that a browser has begun.
type Session struct {
	ID      string
	Client  auth.Identity // of its requests
	Browser string        // address of the browser that began it
	Began   time.Time
	Ends    time.Time // whatever it does
	// Conn is the session's connection to the control plane. It is closed when the
	// session ends.
	Conn *grpc.ClientConn

	bound hash // fingerprint of the certificate that it needs, or zero
	store *Store
	timer *time.Timer
	// The store's mu guards these.
	used  time.Time // by the last request that began or ended
	using int       // requests in progress
}

// New makes a store. Its sessions make their connections with dial.
func New(dial Dial) *Store {
	return &Store{dial: dial, name: rand.Text()[:8], tokens: make(map[hash]token), sessions: make(map[hash]*Session)}
}

// Token makes a token for a client.
func (s *Store) Token(client auth.Identity) (text string, expires time.Time, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, t := range s.tokens {
		if !now.Before(t.expires) {
			delete(s.tokens, h)
		}
	}
	if h, ok := oldest(s.tokens, client, func(t token) (auth.Identity, time.Time) { return t.client, t.expires }); ok {
		delete(s.tokens, h)
	}
	if len(s.tokens) >= Most {
		return "", time.Time{}, ErrFull
	}
	text, expires = rand.Text(), now.Add(TokenTime)
	s.tokens[sha256.Sum256([]byte(text))] = token{client, expires}
	return text, expires, nil
}

// oldest finds the item that must go before a client may have another.
func oldest[T any](all map[hash]T, client auth.Identity, of func(T) (auth.Identity, time.Time)) (first hash, ok bool) {
	n, began := 0, time.Time{}
	for h, item := range all {
		owner, at := of(item)
		if owner.Name != client.Name {
			continue
		}
		if n++; n == 1 || at.Before(began) {
			first, began = h, at
		}
	}
	return first, n >= PerClient
}

// Begin exchanges a token for a session. The secret is the browser's proof.
func (s *Store) Begin(text string, browser Browser) (secret string, _ *Session, err error) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := hash(sha256.Sum256([]byte(text)))
	t, ok := s.tokens[h]
	delete(s.tokens, h)
	if !ok || !now.Before(t.expires) {
		return "", nil, ErrToken
	}
	return s.begin(t.client, browser, now)
}

// BeginAs begins a session of the client that a browser's certificate names.
func (s *Store) BeginAs(client auth.Identity, browser Browser) (secret string, _ *Session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begin(client, browser, time.Now())
}

// begin makes a session. The caller holds mu.
func (s *Store) begin(client auth.Identity, browser Browser, now time.Time) (secret string, _ *Session, err error) {
	if h, ok := oldest(s.sessions, client, func(c *Session) (auth.Identity, time.Time) { return c.Client, c.Began }); ok {
		s.end(h)
	}
	if len(s.sessions) >= Most {
		return "", nil, ErrFull
	}
	c := &Session{
		ID: strings.ToLower(rand.Text()[:8]), Client: client, Browser: browser.Address, Began: now, Ends: now.Add(LongTime),
		bound: browser.fingerprint(), used: now, store: s,
	}
	if b := browser.Certificate; b != nil && b.NotAfter.Before(c.Ends) {
		c.Ends = b.NotAfter
	}
	c.Client.Origin = "console " + c.ID + " " + browser.Address
	if c.Conn, err = s.dial(c.Client); err != nil {
		return "", nil, err
	}
	secret = s.name + rand.Text()
	h := hash(sha256.Sum256([]byte(secret)))
	c.timer = time.AfterFunc(min(IdleTime, c.Ends.Sub(now)), func() { s.expire(h) })
	s.sessions[h] = c
	return secret, c, nil
}

// Use returns the session of a secret, for one request of a browser, or nil if
// there is none. The caller calls Done when the request ends.
func (s *Store) Use(secret string, browser Browser) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.sessions[sha256.Sum256([]byte(secret))]
	if c == nil || !time.Now().Before(c.expires()) || c.bound != (hash{}) && c.bound != browser.fingerprint() {
		return nil
	}
	c.used = time.Now()
	c.using++
	return c
}

// Made reports whether a secret belongs to a session of this store, which may have ended. If
// not, rdmad has restarted since that session began.
func (s *Store) Made(secret string) bool { return strings.HasPrefix(secret, s.name) }

// Done ends the use of a session by a request.
func (c *Session) Done() {
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	c.used = time.Now()
	c.using--
}

// expires is when the session ends, if no other request comes. The caller holds
// the store's mu.
func (c *Session) expires() time.Time {
	idle := c.used.Add(IdleTime)
	if c.using > 0 || c.Ends.Before(idle) {
		return c.Ends
	}
	return idle
}

// expire ends a session whose time is over, or looks again later.
func (s *Store) expire(h hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.sessions[h]
	if c == nil {
		return
	}
	rest := time.Until(c.expires())
	if rest <= 0 {
		s.end(h)
		return
	}
	c.timer.Reset(min(rest, IdleTime))
}

// end removes a session. The caller holds mu.
func (s *Store) end(h hash) {
	c := s.sessions[h]
	delete(s.sessions, h)
	c.timer.Stop()
	c.Conn.Close()
}

// End ends a session and its requests, by its ID. It returns whether there was
// one.
func (s *Store) End(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h, c := range s.sessions {
		if c.ID == id {
			s.end(h)
			return true
		}
	}
	return false
}

// Info shows a session.
type Info struct {
	ID                   string
	Client               auth.Identity
	Browser              string
	Began, Used, Expires time.Time
}

// List returns the sessions, oldest first.
func (s *Store) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Info, 0, len(s.sessions))
	for _, c := range s.sessions {
		all = append(all, Info{ID: c.ID, Client: c.Client, Browser: c.Browser, Began: c.Began, Used: c.used, Expires: c.expires()})
	}
	slices.SortFunc(all, func(a, b Info) int { return a.Began.Compare(b.Began) })
	return all
}

// Close ends all sessions and forgets all tokens.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
	for h := range s.sessions {
		s.end(h)
	}
}
