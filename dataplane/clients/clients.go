// Package clients sums what each client did over all its connections. A client is an address.
// Connections count for themselves; the table gets their counters when it is asked, so a call
// costs nothing more. It reads the counters of connections that have a function for that, and
// Recount gets those of the others.
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
	// Recount, if not nil, is called by List and Export before anything else. It calls Count for
	// each connection without a function that did something since its last Count.
	Recount func()

	room int

	mu      sync.Mutex
	clients map[netip.Addr]*client
	read    map[*Conn]struct{} // connections that have a function for their counters
	idle    list.List          // of the clients without connections, the one that left first at the front
	rest    client
	top     top
}

// Room is the number of clients that rdmad remembers.
const Room = 4096

// New makes a table with room for a number of clients.
func New(room int) *Table {
	return &Table{room: room, clients: make(map[netip.Addr]*client), read: make(map[*Conn]struct{})}
}

// client is what the table has of an address.
type client struct {
	address  netip.Addr    // invalid for the rest
	up       int           // connections
	idle     *list.Element // of the table, while there are no connections
	sum      Counters      // of all connections, ended ones included, as far as they are counted
	since    time.Time     // of the first connection that is remembered
	selected selected
}

// Conn is a connection of a client.
type Conn struct {
	table    *Table
	client   *client
	counters func() Counters // or nil
	counted  Counters        // in the client's sum
}

// Join adds a connection. counters returns what the connection did; it must not wait. It is nil
// for a connection that calls Count.
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
	c.client.up++
	if counters != nil {
		t.read[c] = struct{}{}
	}
	return c
}

// Count counts what a connection did so far.
func (c *Conn) Count(now Counters) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.count(now)
}

func (c *Conn) count(now Counters) {
	c.client.sum.add(now.since(c.counted))
	c.counted = now
}

// lockCounted takes the lock once all connections are counted.
func (t *Table) lockCounted() {
	if t.Recount != nil {
		t.Recount()
	}
	t.mu.Lock()
	for c := range t.read {
		c.count(c.counters())
	}
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
		t.top.see(c)
		t.rest.sum.add(c.sum)
		t.rest.selected.seen.add(c.sum) // the part that was not seen before is seen now
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
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.counters != nil {
		c.count(c.counters())
		delete(t.read, c)
	}
	if c.client.up--; c.client.up == 0 && c.client != &t.rest {
		c.client.idle = t.idle.PushBack(c.client)
	}
}

// Client describes a client.
type Client struct {
	Address     netip.Addr // invalid for the rest
	Connections int
	Since       time.Time // when it was first seen; zero for the rest
	Counters
}

func (c *client) describe() Client {
	return Client{Address: c.address, Connections: c.up, Since: c.since, Counters: c.sum}
}

// List returns the clients with the most calls, at most n of them, and the sum and the number
// of the others. 0 means all.
func (t *Table) List(n int) (list []Client, others Client, number int) {
	t.lockCounted()
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
