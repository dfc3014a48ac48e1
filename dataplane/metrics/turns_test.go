package metrics

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowPage answers each scrape after a second.
var slowPage = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(time.Second)
	w.WriteHeader(http.StatusTeapot)
	_, _ = io.WriteString(w, "page")
})

func scrapeOf(ctx context.Context, h http.Handler, host string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil)
	r.RemoteAddr = host + ":1"
	h.ServeHTTP(w, r)
	return w
}

// TestScrapesTakeTurns: a host that scrapes all the time does not delay another one by more
// than one scrape and the rest after it, and all scrapes together take a quarter of the time.
func TestScrapesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		h := turns.handler(slowPage)
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		scrape := func(host string) {
			all.Go(func() {
				w := scrapeOf(t.Context(), h, host)
				if w.Code != http.StatusTeapot || w.Body.String() != "page" {
					t.Errorf("%s: %d, %q", host, w.Code, w.Body)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, host)
			})
			synctest.Wait()
		}
		start := time.Now()
		for range 4 {
			scrape("192.0.2.1")
		}
		scrape("192.0.2.2")
		all.Wait()
		if at := slices.Index(order, "192.0.2.2"); at > 2 {
			t.Errorf("the other host's scrape was number %d", at+1)
		}
		if took, want := time.Since(start), time.Second*(4*(1+rests)+1); took != want {
			t.Errorf("5 scrapes took %v, want %v", took, want)
		}
		time.Sleep(rests * time.Second)
		synctest.Wait()
		if turns.taken || len(turns.hosts) != 0 || turns.queue.Len() != 0 {
			t.Errorf("left: %+v", turns)
		}
	})
}

// TestScraperIsGone: a scrape whose client is gone takes no turn.
func TestScraperIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		h := turns.handler(slowPage)
		go scrapeOf(t.Context(), h, "192.0.2.1")
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		over := make(chan *httptest.ResponseRecorder)
		go func() { over <- scrapeOf(gone, h, "192.0.2.2") }()
		synctest.Wait()
		leave()
		if w := <-over; w.Body.Len() != 0 {
			t.Errorf("it was answered: %q", w.Body)
		}
		if w := scrapeOf(t.Context(), h, "192.0.2.3"); w.Body.String() != "page" {
			t.Errorf("the next one: %q", w.Body)
		}
		time.Sleep(rests * time.Second)
		synctest.Wait()
		if turns.taken || len(turns.hosts) != 0 || turns.queue.Len() != 0 {
			t.Errorf("left: %+v", turns)
		}
	})
}

// stuck is a client that does not read its answer.
type stuck struct {
	*httptest.ResponseRecorder
	until   context.Context
	reached chan struct{} // closed by Write
}

func (s stuck) Write([]byte) (int, error) {
	close(s.reached)
	<-s.until.Done()
	return 0, s.until.Err()
}

// TestSlowScraper: a client that does not read its answer does not keep others waiting.
func TestSlowScraper(t *testing.T) {
	h := newTurns().handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	var first sync.WaitGroup
	defer first.Wait()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	reached := make(chan struct{})
	first.Go(func() {
		h.ServeHTTP(stuck{httptest.NewRecorder(), ctx, reached}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
	})
	<-reached
	if w := scrapeOf(t.Context(), h, "192.0.2.1"); w.Body.String() != "page" {
		t.Errorf("the other one: %q", w.Body)
	}
}
