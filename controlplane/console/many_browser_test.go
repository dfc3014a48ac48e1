package console_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
)

// TestManyConnections: 5,000 connections are sorted, filtered and walked through
// with the keyboard, and the document has only the rows that are seen.
func TestManyConnections(t *testing.T) {
	const many = 5000
	p := open(t, auth.Viewer)
	for i := 3; i <= many; i++ {
		p.plane.Connect(planetest.Peer{ID: strconv.Itoa(i), Listener: "nfs", Address: fmt.Sprintf("10.0.%d.%d:1001", i/250, i%250)})
	}
	row := func(n int, want string) chromedp.Action[chromedp.Void] {
		return holds(fmt.Sprintf(`document.querySelectorAll("tbody tr")[%d]?.cells[0].textContent === %s`, n, quote(want)))
	}
	focused := func(want string) chromedp.Action[chromedp.Void] {
		return holds("document.activeElement.textContent === " + quote(want))
	}
	p.do("list", p.navigate("#/connections?sort=id&order=up"), text(".bar", "5,000 of 5,000 shown"), row(0, "1"),
		holds(`document.querySelector("table").getAttribute("aria-rowcount") === "5001"`))
	p.do("keys", chromedp.Focus("tbody a"), chromedp.KeyEvent(kb.ArrowDown), focused("2"), chromedp.KeyEvent(kb.End), focused("5000"),
		holds(`document.activeElement.closest("tr").getAttribute("aria-rowindex") === "5001"`),
		holds(`(() => { const row = document.activeElement.getBoundingClientRect(), list = document.querySelector(".list").getBoundingClientRect(); return row.top >= list.top && row.bottom <= list.bottom; })()`),
		chromedp.KeyEvent(kb.ArrowUp), focused("4999"), chromedp.KeyEvent(kb.Home), focused("1"))
	if rows := p.get(`String(document.querySelectorAll("tbody tr").length)`); len(rows) > 2 {
		t.Errorf("the document has %s rows", rows)
	}
	p.busy("4321")
	p.do("busy ones first", click("Calls/s"), row(0, "4321"), holds(`Number(document.querySelector("tbody tr").cells[6].textContent) > 0`))
	p.do("its line is drawn", holds(`(() => { const c = document.querySelector("tbody canvas"); return c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((v) => v > 0); })()`))
	p.do("the address has the order", holds(`location.hash === "#/connections?sort=calls&order=down"`))
	p.do("filtered by the address", p.navigate("#/connections?filter=10.0.17."), text(".bar", "250 of 5,000 shown"), holds(`document.getElementById("filter").value === "10.0.17."`), row(0, "4321"))
	p.plane.Disconnect("4250", "gone")
	p.do("one ends", text(".bar", "249 of 4,999 shown"))
	p.do("opened with Enter", chromedp.Focus("tbody a"), chromedp.KeyEvent("\r"), text("h1", "Connection 4321"), now("Calls: all", ` > "0"`))
	p.plane.Disconnect("4999", "gone")
	p.do("one that is gone", p.navigate("#/connections/4999"), text(".warn", "This connection is not up"))
}

// TestHiddenTabHasNoStreams: and opens them again when it is seen.
func TestHiddenTabHasNoStreams(t *testing.T) {
	p := open(t, auth.Viewer)
	hide := func(is bool) chromedp.Action[chromedp.Void] {
		return chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, is))
	}
	p.do("seen", p.navigate("#/connections"), text(".bar", "2 of 2 shown"))
	p.do("hidden", hide(true))
	for p.plane.WantsChanges() { // while somebody watches connections
		if p.ctx.Err() != nil {
			t.Fatal("the stream goes on")
		}
	}
	p.plane.Connect(planetest.Peer{ID: "3", Listener: "nfs", Address: "192.0.2.9:1003"})
	p.plane.Count("3", func(c *dataplane.ConnInfo) { c.Stats.Calls = 7 })
	p.do("seen again", hide(false), text(".bar", "3 of 3 shown"))
}
