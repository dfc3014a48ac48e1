package console_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// local are the buttons that change what the page shows, and nothing in rdmad.
var local = []string{"Copy as rdmactl command", "End session", "Dismiss", "Show", "Show older entries", "Show older revisions", "Clear"}

// action is a button that changes something in rdmad.
type action struct {
	label   *regexp.Regexp
	command string // how it begins
	asks    bool
}

// actions are all other buttons, with their commands. A button that asks first has its
// command in the dialog.
var actions = []action{
	{regexp.MustCompile(`^Keep$`), "rdmactl settings confirm 2", false},
	{regexp.MustCompile(`^Take back$`), "rdmactl settings rollback 1 --revision 2", false},
	{regexp.MustCompile(`^Change (.+)$`), "rdmactl settings set $1=", true},
	{regexp.MustCompile(`^Apply (.+=.+)$`), "rdmactl settings set $1 --scope global", true},
	{regexp.MustCompile(`^Roll back to revision (\d+)$`), "rdmactl settings rollback $1", true},
	{regexp.MustCompile(`^Drain$`), "rdmactl connections drain 1 --deadline 10s", true},
	{regexp.MustCompile(`^Close$`), "rdmactl connections close 1", true},
	{regexp.MustCompile(`^Start$`), "rdmactl trace --connection 1", false},
	{regexp.MustCompile(`^Pause the rollout$`), "rdmactl fleet rollouts pause small@2", false},
	{regexp.MustCompile(`^Resume the rollout$`), "rdmactl fleet rollouts resume small@2", false},
	{regexp.MustCompile(`^Abort the rollout$`), "rdmactl fleet rollouts abort small@2", true},
}

// buttons are the labels of what is seen and can be pressed, but for the heads of columns.
func (p *page) buttons() []string {
	p.t.Helper()
	all := strings.Split(p.get(`[...document.querySelectorAll("button")].filter((b) => b.checkVisibility() && !b.closest("th"))
		.map((b) => b.getAttribute("aria-label") ?? b.textContent.trim()).join("\n")`), "\n")
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(label string) bool { return slices.Contains(local, label) })
}

// copies waits until a command that begins like that is within an element, and copies it.
func copies(within, command string) chromedp.Action[chromedp.Void] {
	return holds(`(() => {
		const c = [...(` + within + `?.querySelectorAll(".command") ?? [])].find((c) => c.querySelector("code").textContent.startsWith(` + quote(command) + `));
		c?.querySelector("button.copy").click();
		return c != null; })()`)
}

// try finds the command of a button beside it, or in the dialog that it opens.
func (p *page) try(view, label string) {
	p.t.Helper()
	for _, a := range actions {
		m := a.label.FindStringSubmatchIndex(label)
		if m == nil {
			continue
		}
		command, what := string(a.label.ExpandString(nil, a.command, label, m)), view+": "+label
		if a.asks {
			p.do(what, click(label), holds("document.getElementById('dialog').open"), copies("document.getElementById('dialog')", command), text("#notice", command),
				click("Cancel"), holds("!document.getElementById('dialog').open"))
		} else {
			p.do(what, copies(`[...document.querySelectorAll(".bar")].find((e) => [...e.querySelectorAll("button")].some((b) => b.textContent === `+quote(label)+`))`, command), text("#notice", command))
		}
		return
	}
	p.t.Errorf("%s: this test does not know the button %s", view, label)
}

// TestEveryActionHasItsCommand: each button that changes something in rdmad has the
// command that does the same.
func TestEveryActionHasItsCommand(t *testing.T) {
	p := everyView(t)
	var sizes rpcrdma.Sizes
	sizes.Calls[7], sizes.Replies[13] = 1000, 900
	p.plane.Connect(planetest.Peer{ID: "3", Listener: "nfs", Address: "192.0.2.9:1", Stats: rpcrdma.Stats{Calls: 1000, RDMAWrites: 900}, Sizes: sizes})
	p.plane.Count("3", func(c *dataplane.ConnInfo) { c.PeerReceive, c.PeerReceiveSize = 4096, 16384 })
	tried := make(map[int]bool)
	walk := func(v view) {
		p.do(v.name, p.navigate(v.address), v.ready)
		for _, label := range p.buttons() {
			p.try(v.name, label)
			tried[slices.IndexFunc(actions, func(a action) bool { return a.label.MatchString(label) })] = true
		}
	}
	for _, v := range views {
		if v.name == "settings" {
			v.ready = text("td", "inline.send_max=9216")
		}
		walk(v)
	}
	p.do("pause", click("Pause the rollout"), text("strong", "PAUSED"))
	walk(view{"paused rollout", "#/fleet/rollouts/small@2", text("strong", "PAUSED")})
	for i, a := range actions {
		if !tried[i] {
			t.Errorf("no view has the button %s", a.label)
		}
	}
}

// TestViewerHasNoControls: what a viewer may not do is not offered in any view.
func TestViewerHasNoControls(t *testing.T) {
	p := open(t, auth.Viewer, func(p *page) { p.fleet = newNodes() })
	var small live.Values
	small.Set(live.CreditsMax, 16)
	if _, _, err := p.control.Settings.Assign(settings.FleetLayer{
		Cluster: 1, Assignment: 1, Scopes: map[settings.Scope]settings.FleetValues{{}: {Values: small}},
	}, patience); err != nil {
		t.Fatal(err)
	}
	p.do("a change waits", text("#confirm", "Revision 1 waits"))
	for _, v := range views {
		if v.name == "audit" {
			v.ready = text("main", "Only admins see the audit log")
		}
		p.do(v.name, p.navigate(v.address), text("#who", "viewer"), v.ready)
		if all := p.buttons(); len(all) > 0 {
			t.Errorf("%s offers %q", v.name, all)
		}
	}
}
