package adaptive

import (
	"cmp"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/credit"
)

// client is a peer with calls to make, and the responder that serves it: the
// real accounting of credits and the real policy, without a wire between them.
type client struct {
	t        *testing.T
	w        *world
	grants   credit.Grants
	adaptive credit.Adaptive
	state    Conn

	want    int // calls it would have in flight
	granted int // what the last answer said
	sent    int

	moves, direction int // of Target: changes of direction, and the last one
	answered         int // all together
}

// world is a service with servers that take serviceTime for a call, and the
// memory that receives are posted from. Calls wait in order of arrival.
type world struct {
	now         time.Time
	servers     int
	serviceTime time.Duration
	memory      int64 // bytes in receives, posted or held by calls
	most        int64 // of memory, ever
	clients     []*client
	group       Group
	controller  Controller

	waiting, running queue
	started          uint64        // calls since the last step
	waited           time.Duration // of these
	conns            []*Conn
	groups           []*Group
}

// receiveSize is what a receive takes, in bytes.
const receiveSize = 4096

type job struct {
	c  *client
	at time.Time // of arrival, or of its end
}

// queue is a FIFO of jobs.
type queue struct {
	jobs  []job
	first int
}

func (q *queue) len() int   { return len(q.jobs) - q.first }
func (q *queue) peek() *job { return &q.jobs[q.first] }
func (q *queue) push(j job) { q.jobs = append(q.jobs, j) }

func (q *queue) pop() job {
	j := q.jobs[q.first]
	if q.first++; 2*q.first > len(q.jobs) {
		q.jobs = q.jobs[:copy(q.jobs, q.jobs[q.first:])]
		q.first = 0
	}
	return j
}

// connect adds a client.
func (w *world) connect(t *testing.T, weight, least, most int) *client {
	c := &client{t: t, w: w, granted: 1}
	c.state = Conn{Group: &w.group, Weight: weight, Min: least, Max: most, Cost: receiveSize, Rest: receiveSize}
	c.grants.Start(c.adaptive.Grant(max(least, credit.Initial), most))
	c.post()
	w.clients = append(w.clients, c)
	w.conns = append(w.conns, &c.state)
	w.groups = []*Group{&w.group}
	return c
}

// post posts the receives that are wanted.
func (c *client) post() {
	n := c.grants.Want()
	c.grants.Confirm(n, n)
	c.w.take(n)
}

func (w *world) take(n int) {
	w.memory += int64(n) * receiveSize
	w.most = max(w.most, w.memory)
}

// send makes as many calls as the client wants and may.
func (c *client) send() {
	for c.sent < min(c.want, c.granted) {
		c.sent++
		c.grants.Arrive()
		if err := c.grants.Call(); err != nil {
			c.t.Fatalf("%v: %d in flight, granted %d", err, c.sent, c.granted)
		}
		c.post()
		c.w.waiting.push(job{c, c.w.now})
	}
}

// answer answers one of its calls.
func (c *client) answer() {
	c.adaptive.Observe(c.grants.Held())
	c.adaptive.Aim(c.state.Target)
	c.grants.SetTarget(c.adaptive.Grant(c.state.Min, c.state.Max))
	grant, reposts := c.grants.AnswerGroup(1)
	if reposts == 0 {
		c.w.take(-1)
	}
	c.post()
	c.granted = int(grant)
	c.sent--
	c.answered++
	c.state.Answered++
	c.send()
}

// advance lets time pass.
func (w *world) advance(until time.Time) {
	w.serve()
	for w.running.len() > 0 && !w.running.peek().at.After(until) {
		j := w.running.pop()
		w.now = j.at
		j.c.answer()
		w.serve()
	}
	w.now = until
}

// serve starts calls as long as there are servers.
func (w *world) serve() {
	for w.waiting.len() > 0 && w.running.len() < w.servers {
		j := w.waiting.pop()
		w.started++
		w.waited += w.now.Sub(j.at)
		w.running.push(job{j.c, w.now.Add(w.serviceTime)})
	}
}

// step is what the data plane does once per Period.
func (w *world) step(budget int64) {
	w.group.Observe(w.started, w.waited)
	w.started, w.waited = 0, 0
	budget -= int64(len(w.clients)) * credit.Slack * receiveSize
	for _, c := range w.clients {
		c.state.Limit = c.grants.Limit()
		c.state.Peak = max(c.adaptive.TakePeak(), c.grants.Held())
	}
	w.controller.Step(w.conns, w.groups, budget)
	for _, c := range w.clients {
		c.state.Answered = 0
		c.adaptive.Aim(c.state.Target)
	}
}

// follow counts the changes of direction of a client's target.
func (c *client) follow(before int) {
	d := cmp.Compare(c.state.Target, before)
	if d == 0 {
		return
	}
	if c.direction != 0 && d != c.direction {
		c.moves++
	}
	c.direction = d
}
