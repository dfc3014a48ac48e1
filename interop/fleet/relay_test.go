package fleet

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// relay passes TCP connections on to a member of etcd.
type relay struct {
	address string
	target  string

	mu      sync.Mutex
	passing sync.Cond // held is false
	held    bool
	shut    bool // connections are closed at once
	conns   map[net.Conn]struct{}
	running sync.WaitGroup
}

func newRelay(t testing.TB, target string) *relay {
	t.Helper()
	r := newLink(target)
	var accepting sync.WaitGroup
	ln := listen(t, &accepting, func(c net.Conn) { r.running.Go(func() { r.pass(c) }) })
	r.address = ln.Addr().String()
	t.Cleanup(func() {
		ln.Close()
		accepting.Wait()
		r.close()
	})
	return r
}

// newLink makes a relay that is given its connections.
func newLink(target string) *relay {
	r := &relay{target: target, conns: make(map[net.Conn]struct{})}
	r.passing.L = &r.mu
	return r
}

func listen(t testing.TB, accepting *sync.WaitGroup, take func(net.Conn)) net.Listener {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepting.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			take(c)
		}
	})
	return ln
}

func (r *relay) pass(c net.Conn) {
	up, err := net.Dial("tcp", r.target)
	if err != nil {
		c.Close()
		return
	}
	if r.keep(c, up) {
		r.both(c, up)
	}
}

// both copies in both directions until one ends.
func (r *relay) both(c, up net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { r.copy(c, up) })
	both.Go(func() { r.copy(up, c) })
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	delete(r.conns, up)
}

func (r *relay) keep(c, up net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shut {
		c.Close()
		up.Close()
		return false
	}
	r.conns[c], r.conns[up] = struct{}{}, struct{}{}
	return true
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for r.held && !r.shut {
			r.passing.Wait()
		}
		r.mu.Unlock()
		if _, e := to.Write(b[:n]); e != nil || err != nil {
			return
		}
	}
}

// cut closes all connections, and new ones until restore.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	for c := range r.conns {
		c.Close()
	}
	r.passing.Broadcast()
}

// hold lets nothing through until restore. Connections stay up.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = true
}

func (r *relay) restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held, r.shut = false, false
	r.passing.Broadcast()
}

func (r *relay) close() {
	r.cut()
	r.running.Wait()
}

// network is what members reach each other through: HTTP proxies, one for each member, so that
// each direction of each pair can be cut.
type network struct {
	proxies []string
	links   [][]*relay // from one member to another
}

func newNetwork(t testing.TB, members int) *network {
	n := &network{}
	for i := range members {
		links := make([]*relay, members)
		for j := range links {
			links[j] = newLink("")
		}
		n.links = append(n.links, links)
		var accepting, running sync.WaitGroup
		ln := listen(t, &accepting, func(c net.Conn) { running.Go(func() { n.connect(i, c) }) })
		n.proxies = append(n.proxies, ln.Addr().String())
		t.Cleanup(func() {
			ln.Close()
			accepting.Wait()
			for _, l := range links {
				l.close()
			}
			running.Wait()
		})
	}
	return n
}

// connect answers a CONNECT request of a member.
func (n *network) connect(from int, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	req, err := http.ReadRequest(bufio.NewReader(c))
	var to, port int
	if err == nil {
		_, err = fmt.Sscanf(req.Host, "m%d.etcd.test:%d", &to, &port)
	}
	if err != nil || to < 1 || to > len(n.links) {
		c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	link := n.links[from][to-1]
	up, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil || !link.keep(c, up) {
		c.Close()
		return
	}
	_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	link.both(c, up)
}

// isolate cuts a member off from the others; with restore they are joined again.
func (n *network) isolate(member int, change func(*relay)) {
	for i := range n.links {
		if i != member {
			change(n.links[i][member])
			change(n.links[member][i])
		}
	}
}
