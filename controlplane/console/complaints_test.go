package console_test

import (
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/chromedp"
)

// complaints makes a test fail if the page throws, or if the browser refuses
// something for the sake of security: the policy of the console, for example. The browser
// must refuse an attack, with p.refusals.
func (p *page) complaints() {
	p.t.Helper()
	var mu sync.Mutex
	var seen []string
	said := make(chan struct{}, 1) // there is something new in seen
	messages := chromedp.Console(p.ctx)
	go func() {
		for m, err := range messages {
			if err == nil && (m.IsException() || m.Source == "security") {
				mu.Lock()
				seen = append(seen, m.String())
				mu.Unlock()
				select {
				case said <- struct{}{}:
				default:
				}
			}
		}
	}()
	saw := func(part string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(seen, func(text string) bool { return strings.Contains(text, part) })
	}
	p.t.Cleanup(func() {
		for _, part := range p.refusals {
			for !saw(part) { // the browser may say it after the page has gone on
				select {
				case <-said:
				case <-p.ctx.Done():
					mu.Lock()
					defer mu.Unlock()
					p.t.Errorf("the browser does not say %q: %q", part, seen)
					return
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, text := range seen {
			if slices.ContainsFunc(p.refusals, func(part string) bool { return strings.Contains(text, part) }) {
				continue
			}
			p.t.Errorf("the browser says %s", text)
		}
	})
}
