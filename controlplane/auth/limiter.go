package auth

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bounds of a Limiter that aren't configured. Strangers get a small part of
// what others do.
const (
	maxClients    = 4096 // remembered; the one that was silent longest is forgotten
	strangersPart = 20
	tellTime      = time.Second // between two recorded refusals of one client
)

// Rate bounds the requests of each client.
type Rate struct {
	PerSecond float64
	Burst     int
}

// DefaultRate lets a client make a hundred changes per second while it watches, and lets a
// script list everything at once.
func DefaultRate() Rate { return Rate{PerSecond: 200, Burst: 400} }

// Limiter limits each client to a rate. Its methods may be called from any goroutine.
type Limiter struct {
	full, strangers Rate

	mu      sync.Mutex
	clients map[clientKey]*list.Element
	recent  list.List // of *client, the one heard of last in front
}

// clientKey has the role, because each role of a client has a rate of its own: a user's processes
// may have different groups.
type clientKey struct {
	name string // Identity.Client
	role Role
}

type client struct {
	key    clientKey
	bucket *rate.Limiter
	told   time.Time
}

// NewLimiter makes a limiter.
func NewLimiter(r Rate) *Limiter {
	return &Limiter{
		full:      r,
		strangers: Rate{PerSecond: r.PerSecond / strangersPart, Burst: max(1, r.Burst/strangersPart)},
		clients:   make(map[clientKey]*list.Element),
	}
}

// Verdict is the decision about a request.
type Verdict struct {
	OK   bool
	Wait time.Duration // until one is let in, when this isn't
	// Tell is set for refusals that are worth a line in the log: one per second for each
	// client.
	Tell bool
}

// Allow decides whether a client may make a request now.
func (l *Limiter) Allow(id Identity, now time.Time) Verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.client(id)
	if c.bucket.AllowN(now, 1) {
		return Verdict{OK: true}
	}
	missing := 1 - c.bucket.TokensAt(now)
	v := Verdict{Wait: time.Duration(missing / float64(c.bucket.Limit()) * float64(time.Second))}
	if now.Sub(c.told) >= tellTime {
		c.told, v.Tell = now, true
	}
	return v
}

// client finds a client, or makes room for it.
func (l *Limiter) client(id Identity) *client {
	key := clientKey{id.Client, id.Role}
	if e, ok := l.clients[key]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*client)
	}
	if l.recent.Len() >= maxClients {
		delete(l.clients, l.recent.Remove(l.recent.Back()).(*client).key)
	}
	r := l.full
	if id.Role == None {
		r = l.strangers
	}
	c := &client{key: key, bucket: rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)}
	l.clients[key] = l.recent.PushFront(c)
	return c
}
