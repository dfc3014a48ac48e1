package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
)

// TestAuditView: entries with what changed, filtered by client and time, page by page.
func TestAuditView(t *testing.T) {
	p := open(t, auth.Admin)
	for i := range uint32(101) {
		p.set(creditsMax(10 + i))
	}
	rows := func(n string) chromedp.Action[chromedp.Void] {
		return holds("document.querySelectorAll('tbody tr').length === " + n)
	}
	p.do("the newest", clickLink("Audit"), text("h1", "Audit log"), rows("100"), text("td", "anonymous, admin"), text("td", "SettingsService/SetSettings"),
		text("td", "110"), text("th", "Time ("+p.get("Intl.DateTimeFormat().resolvedOptions().timeZone")+")"))
	p.do("older ones", click("Show older entries"), rows("101"))
	p.do("of nobody", fill("#filter", "olga"), click("Show"), text("main", "No entry matches"), text("code", "rdmactl audit --actor olga"), holds("location.hash === '#/audit?actor=olga'"))
	p.do("of a client", p.navigate("#/audit?actor=anonymous"), rows("100"))
	p.do("of the future", p.navigate("#/audit?since=2999-01-01T00:00:00.000Z"), text("main", "No entry matches"), holds("document.getElementById('since').value.startsWith('299')"))
	p.do("all", clickLink("Show all"), rows("100"))
}

// TestAuditIsForAdmins: other roles have no link, and the view says why it is empty.
func TestAuditIsForAdmins(t *testing.T) {
	p := open(t, auth.Operator)
	p.do("no link", holds("document.querySelector('nav a[href=\"#/audit\"]').hidden"), p.navigate("#/audit"), text("main", "Only admins see the audit log"))
}
