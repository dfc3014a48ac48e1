// Package clients sums what each client did over all its connections. A client is an address.
// Connections count for themselves; the table reads their counters when it is asked, so a call
// costs nothing more.
//
// The table remembers a bounded number of clients. When it is full, a new client takes the
// place of the client that has been without connections for longest, whose counters go to
// those of the rest. A client with a series in the metrics stays. While there is no place, new
// clients count as the rest.
package clients

import (
	"cmp"
	"container/list"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Counters are what a client, or one of its connections, did.
type Counters struct {
	Calls, Errors            uint64
	BytesReceived, BytesSent uint64
	Time                     time.Duration // in services and at targets
}

// add adds o to c.
func (c *Counters) add(o Counters) {
	c.Calls += o.Calls
	c.Errors += o.Errors
	c.BytesReceived += o.BytesReceived
	c.BytesSent += o.BytesSent
	c.Time += o.Time
}

// since returns c without what was counted before.
func (c Counters) since(before Counters) Counters {
	return Counters{
		Calls: c.Calls - before.Calls, Errors: c.Errors - before.Errors,
		BytesReceived: c.BytesReceived - before.BytesReceived, BytesSent: c.BytesSent - before.BytesSent,
		Time: c.Time - before.Time,
	}
}

// Table holds the clients. A nil Table counts nothing.
type Table struct {
	room int

	mu      sync.Mutex
	clients map[netip.Addr]*client
	idle    list.List // of the clients without connections, the one that left first at the front
	rest    client
	top     top
}

// Room is the number of clients that rdmad remembers.
const Room = 4096

// New makes a table with room for a number of clients.
func New(room int) *Table { return &Table{room: room, clients: make(map[netip.Addr]*client)} }

// client is what the table has of an address.
type client struct {
	address  netip.Addr // invalid for the rest
	conns    map[*Conn]struct{}
	idle     *list.Element // of the table, while there are no conns
	ended    Counters      // of connections that have ended
	since    time.Time     // of the first connection that is remembered
	selected selected
}

// Conn is a connection of a client.
type Conn struct {
	table    *Table
	client   *client
	counters func() Counters
}

// Join adds a connection. counters returns what the connection did; it must not wait.
func (t *Table) Join(now time.Time, address netip.Addr, counters func() Counters) *Conn {
	if t == nil {
		return nil
	}
	c := &Conn{table: t, counters: counters}
	t.mu.Lock()
	defer t.mu.Unlock()
	c.client = t.of(address.Unmap().WithZone(""), now)
	if c.client.idle != nil {
		t.idle.Remove(c.client.idle)
		c.client.idle = nil
	}
	if c.client.conns == nil {
		c.client.conns = make(map[*Conn]struct{})
	}
	c.client.conns[c] = struct{}{}
	return c
}

// of returns the client of an address, or the rest.
func (t *Table) of(address netip.Addr, now time.Time) *client {
	c := t.clients[address]
	if c == nil && (len(t.clients) < t.room || t.forget()) {
		c = &client{address: address, since: now}
		t.clients[address] = c
	}
	if c == nil {
		return &t.rest
	}
	return c
}

// forget makes room for a client. It returns false if all clients have connections or a series
// in the metrics, which would begin again from 0 when its client comes back.
func (t *Table) forget() bool {
	for e := t.idle.Front(); e != nil; e = e.Next() {
		c := e.Value.(*client)
		if c.selected.chosen {
			continue
		}
		t.top.see(c, c.ended)
		t.rest.ended.add(c.ended)
		t.rest.selected.seen.add(c.ended) // the part that was not seen before is seen now
		delete(t.clients, c.address)
		t.idle.Remove(e)
		return true
	}
	return false
}

// Leave removes a connection that has ended, and keeps its counters.
func (c *Conn) Leave() {
	if c == nil {
		return
	}
	last := c.counters()
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(c.client.conns, c)
	c.client.ended.add(last)
	if len(c.client.conns) == 0 && c.client != &t.rest {
		c.client.idle = t.idle.PushBack(c.client)
	}
}

// now returns the counters of all connections of a client, ended ones included.
func (c *client) now() Counters {
	sum := c.ended
	for conn := range c.conns {
		sum.add(conn.counters())
	}
	return sum
}

// Client describes a client.
type Client struct {
	Address     netip.Addr // invalid for the rest
	Connections int
	Since       time.Time // when it was first seen; zero for the rest
	Counters
}

func (c *client) describe() Client {
	return Client{Address: c.address, Connections: len(c.conns), Since: c.since, Counters: c.now()}
}

// List returns the clients with the most calls, at most n of them, and the sum and the number
// of the others. 0 means all.
func (t *Table) List(n int) (list []Client, others Client, number int) {
	t.mu.Lock()
	list = make([]Client, 0, len(t.clients))
	for _, c := range t.clients {
		list = append(list, c.describe())
	}
	others = t.rest.describe()
	t.mu.Unlock()
	slices.SortFunc(list, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), a.Address.Compare(b.Address))
	})
	if n == 0 || n > len(list) {
		n = len(list)
	}
	for _, c := range list[n:] {
		others.Connections += c.Connections
		others.add(c.Counters)
	}
	return list[:n], others, len(list) - n
}
