package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// TestConfirmWindowRunsOut: the value goes back, and the page says so.
func TestConfirmWindowRunsOut(t *testing.T) {
	p := open(t, auth.Operator)
	p.do("open the form", p.navigate("#/settings?scope=listener/nfs"), click("Change credits.max"), text("dialog[open]", "Change credits.max at listener/nfs"))
	p.do("a window of a second", fill("dialog input[name=value]", "7"),
		chromedp.Evaluate[chromedp.Void](`document.querySelector("dialog option[value='30s']").value = "1s"`),
		fill("dialog select[name=within]", "1s"), text("dialog code", "rdmactl settings set credits.max=7 --scope listener/nfs --confirm-within 1s"),
		click("Show the effects"), click("Apply"))
	p.do("taken back", text("#notice", "Revision 1 was not confirmed in time. rdmad took it back"), holds("document.getElementById('confirm').hidden"),
		text("td", "EXPIRED"), holds("![...document.querySelectorAll('td')].some((e) => e.textContent === 'listener/nfs')"))
	if v := p.settingValue("credits.max"); v == "7" {
		t.Error("it is still 7")
	}
	p.do("dismissed", click("Dismiss"), holds("document.getElementById('notice').hidden"))
}

// navigate goes to a view.
func (p *page) navigate(fragment string) chromedp.Action[chromedp.Void] {
	return chromedp.Navigate("http://" + p.console + "/" + fragment)
}

// set changes a setting at the global scope, as somebody else.
func (p *page) set(value *rdmadv1.Settings) {
	p.t.Helper()
	if _, err := rdmadv1.NewSettingsServiceClient(p.client).SetSettings(p.t.Context(), &rdmadv1.SetSettingsRequest{Settings: value}); err != nil {
		p.t.Fatal(err)
	}
}

func creditsMax(n uint32) *rdmadv1.Settings {
	return &rdmadv1.Settings{Credits: &rdmadv1.CreditsSettings{Max: &n}}
}

// TestSettingsByAddress: an address names a scope and a key, and a scope that does
// not exist leaves the choice of another one.
func TestSettingsByAddress(t *testing.T) {
	p := open(t, auth.Operator)
	p.set(creditsMax(32))
	p.do("a key", p.navigate("#/settings?scope=connection/1&key=credits.max"), text("article h2", "credits.max = 32"), text("article td", "default"), text("article td", "global"),
		text("caption", "Values in force at connection/1"))
	p.do("another key by its link", clickLink("ddp.min_chunk"), text("article h2", "ddp.min_chunk"), holds("location.hash === '#/settings?scope=connection%2F1&key=ddp.min_chunk'"))
	p.do("a scope that is not there", p.navigate("#/settings?scope=listener/none"), text(".bad", "Choose another scope"), text("h2", "History"))
	p.do("another one", fill("#scope", "listener/nfs"), click("Show"), text("caption", "Values in force at listener/nfs"))
	p.set(creditsMax(33))
	p.do("what somebody else changes", text("td", "33"), text("li", "credits.max at global: 32 → 33"))
}

// canApply says whether the dialog's change can be applied.
const canApply = `(document.querySelector("dialog form button.main:enabled") != null)`

// TestSomebodyElseWasFirst: a change that was looked at is not made after another one.
func TestSomebodyElseWasFirst(t *testing.T) {
	p := open(t, auth.Operator)
	p.do("look", p.navigate("#/settings"), click("Change credits.max"), text("dialog[open]", "Change credits.max"),
		fill("dialog input[name=value]", "7"), click("Show the effects"), holds(canApply))
	p.set(creditsMax(33))
	p.do("refused", click("Apply"), text("dialog .bad", "revision"))
	if v := p.settingValue("credits.max"); v != "33" {
		t.Errorf("it is %s", v)
	}
}

// TestEffectsOnEachConnection: a dry run lists them, and a value that is refused is
// marked in its field.
func TestEffectsOnEachConnection(t *testing.T) {
	p := open(t, auth.Operator)
	p.do("open the form", p.navigate("#/settings"), click("Change inline.receive_size"), text("dialog[open]", "Change inline.receive_size"))
	p.do("refused", fill("dialog input[name=value]", "1025"), click("Show the effects"), text("dialog .bad", "multiple of 1024"),
		holds("document.querySelector('dialog [name=value]').getAttribute('aria-invalid') === 'true'"))
	p.do("effects", fill("dialog input[name=value]", "8192"), holds("!document.querySelector('dialog [aria-invalid]')"), click("Show the effects"),
		text("dialog caption", "Effect on each connection"), holds("document.querySelectorAll('dialog tbody tr').length === 2"), text("dialog td", "PENDING_RECONNECT"), holds(canApply))
	p.do("other values are not applied", fill("dialog input[name=value]", "16384"), holds("!"+canApply), holds("!document.querySelector('dialog tbody')"),
		fill("dialog input[name=value]", "8192"))
	p.do("the command", fill("dialog input[name=comment]", "it's a try"), fill("dialog select[name=within]", "60s"),
		text("dialog code", `rdmactl settings set inline.receive_size=8192 --scope global --confirm-within 60s --comment 'it'\\''s a try'`))
	p.do("copy", clickOn(`document.querySelector("dialog .copy")`), text("#notice", "rdmactl settings set inline.receive_size=8192"))
	p.do("escape", chromedp.KeyEvent("\u001b"), holds("!document.getElementById('dialog').open"),
		holds("document.activeElement.getAttribute('aria-label') === 'Change inline.receive_size'"))
}

// TestAdvice: it is shown with its reason, and applied.
func TestAdvice(t *testing.T) {
	p := open(t, auth.Operator)
	var sizes rpcrdma.Sizes
	sizes.Calls[7], sizes.Replies[13] = 1000, 900
	p.plane.Connect(planetest.Peer{ID: "3", Listener: "nfs", Address: "192.0.2.9:1", Stats: rpcrdma.Stats{Calls: 1000, RDMAWrites: 900}, Sizes: sizes})
	p.plane.Count("3", func(c *dataplane.ConnInfo) { c.PeerReceive, c.PeerReceiveSize = 4096, 16384 })
	p.do("see it", p.navigate("#/settings"), text("#advice ~ .scroll td", "inline.send_max=9216"), text("#advice ~ .scroll td", "900 replies"))
	p.do("apply it", click("Apply inline.send_max=9216 ddp.min_chunk=9216"), text("dialog[open]", "Set inline.send_max=9216 ddp.min_chunk=9216 at global"), click("Show the effects"),
		text("dialog [role=status]", "Connections:"), click("Apply"), text("li", "inline.send_max at global: not set → 9216"), holds("!document.getElementById('dialog').open"))
	if v := p.settingValue("inline.send_max"); v != "9216" {
		t.Errorf("it is %s", v)
	}
}

// TestOlderRevisions: they come page by page.
func TestOlderRevisions(t *testing.T) {
	p := open(t, auth.Operator)
	for i := range uint32(52) {
		p.set(creditsMax(10 + i))
	}
	rows := func(n string) chromedp.Action[chromedp.Void] {
		return holds("document.querySelectorAll('#history ~ .scroll tbody tr').length === " + n)
	}
	p.do("the newest", p.navigate("#/settings"), rows("50"))
	p.do("all", click("Show older revisions"), rows("52"), holds("document.activeElement !== document.body"))
	if more := p.get("String([...document.querySelectorAll('button')].some((b) => b.textContent.includes('older')))"); strings.Contains(more, "true") {
		t.Error("there is a button for more")
	}
}
