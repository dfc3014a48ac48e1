package console_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// view is a view with an action after which it is complete.
type view struct {
	name, address string
	ready         chromedp.Action[chromedp.Void]
}

// views are all views, of an admin in a fleet.
var views = []view{
	{"overview", "#/overview", text("h2", "Listeners")},
	{"connections", "#/connections", text("td", "192.0.2.7")},
	{"connection", "#/connections/1", text("h1", "Connection 1")},
	{"settings", "#/settings?scope=global&key=ddp.min_chunk", text("article h2", "ddp.min_chunk")},
	{"audit", "#/audit", text("td", "SettingsService/SetSettings")},
	{"fleet", "#/fleet?by=role", text("td", "small@2")},
	{"node", "#/fleet/gateway-2", text("h2", "gateway-2")},
	{"rollout", "#/fleet/rollouts/small@2", text("h2", "Rollout small@2")},
}

// everyView opens a console in which every view shows something, with a change that
// waits to be confirmed.
func everyView(t *testing.T) *page {
	t.Helper()
	p := open(t, auth.Admin, func(p *page) { p.fleet = newNodes() })
	p.plane.Degrade("nfs", "the device is gone")
	p.set(creditsMax(32))
	_, err := rdmadv1.NewSettingsServiceClient(p.client).SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{
		Settings: creditsMax(16), ConfirmWithin: durationpb.New(patience), Comment: "a try",
	})
	if err != nil {
		t.Fatal(err)
	}
	p.do("the change waits", text("#confirm", "Revision 2 waits"))
	return p
}

// axe returns what axe-core finds wrong by WCAG 2.2 level A and AA, a line each.
const axe = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"]}).then((r) =>
  r.violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + v.help + ": " + n.target.join(" ") + ": " + n.any.concat(n.all, n.none).map((c) => c.message).join("; "))).join("\n"))`

// TestAccessibility: axe-core finds nothing in any view, dialogs included, in light and
// dark.
func TestAccessibility(t *testing.T) {
	source, err := os.ReadFile("testdata/axe/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	p := everyView(t)
	p.do("axe", chromedp.Evaluate[chromedp.Void](string(source)+";undefined"))
	check := func(name string) {
		t.Helper()
		for _, scheme := range []string{"light", "dark"} {
			p.do(scheme, chromedp.Evaluate[chromedp.Void](`document.documentElement.style.colorScheme = "`+scheme+`"; undefined`))
			found, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](axe, chromedp.EvalAwaitPromise))
			if err != nil {
				t.Fatal(err)
			}
			if found != "" {
				t.Errorf("%s, %s:\n%s", name, scheme, found)
			}
		}
	}
	for _, v := range views {
		p.do(v.name, p.navigate(v.address), v.ready)
		check(v.name)
	}
	p.do("a dialog", p.navigate("#/settings"), click("Change credits.min"), text("dialog[open]", "Change credits.min"),
		fill("dialog input[name=value]", "0"), click("Show the effects"), text("dialog .bad", "credits.min"))
	check("dialog")
	p.do("closed", chromedp.KeyEvent("\u001b"), click("Take back"), text("#notice", "Revision 2 is taken back"))
	check("notice")
	p.do("the end", click("End session"), text("h1", "The session has ended"))
	check("end")
}

// TestWidths: no view is wider than a phone or a small window; tables scroll by
// themselves.
func TestWidths(t *testing.T) {
	p := everyView(t)
	for _, size := range []struct {
		width, height int64
		options       []chromedp.EmulateViewportOption
	}{{390, 844, []chromedp.EmulateViewportOption{chromedp.EmulateMobile, chromedp.EmulateTouch}}, {1000, 800, nil}} {
		p.do("size", chromedp.EmulateViewport(size.width, size.height, size.options...))
		for _, v := range views {
			p.do(v.name, p.navigate(v.address), v.ready)
			wide := p.get(`[...document.querySelectorAll("body, body *")].filter((e) => !e.parentElement.closest(".scroll, dialog:not([open])") && e.getBoundingClientRect().right > innerWidth + 0.5)
				.map((e) => e.tagName + "." + e.className + "#" + e.id + " " + Math.round(e.getBoundingClientRect().right)).slice(0, 5).join("; ")`)
			if over := p.get("String(Math.max(document.documentElement.scrollWidth, innerWidth) - " + strconv.FormatInt(size.width, 10) + ")"); over != "0" {
				t.Errorf("%s is %s px wider than %d: %s", v.name, over, size.width, wide)
			}
		}
		p.do("a dialog", p.navigate("#/settings"), click("Change credits.min"), text("dialog[open]", "Change credits.min"),
			holds("document.getElementById('dialog').scrollWidth <= document.getElementById('dialog').clientWidth"), click("Cancel"))
	}
}

// TestKeyboard: a change from login to confirmation without a pointer.
func TestKeyboard(t *testing.T) {
	p := open(t, auth.Operator)
	tabTo := func(label string) chromedp.Action[chromedp.Void] {
		return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			for range 100 {
				if _, err := chromedp.KeyEvent("\t")(ctx, target); err != nil {
					return err
				}
				at, err := chromedp.Evaluate[string](`document.activeElement.getAttribute("aria-label") ?? (document.activeElement.labels?.[0] ?? document.activeElement).textContent`)(ctx, target)
				if err != nil || strings.TrimSpace(at) == label {
					return err
				}
			}
			return errors.New("the tabulator does not lead to " + label)
		})
	}
	press := chromedp.KeyEvent("\r")
	p.do("skip", tabTo("Skip to the content"), press, holds("document.activeElement.id === 'main'"))
	p.do("settings", tabTo("Settings"), press, text("h1", "Settings"), text("td", "ddp.min_chunk"))
	p.do("change", tabTo("Change ddp.min_chunk"), press, text("dialog[open]", "Change ddp.min_chunk"))
	p.do("value", tabTo("Value"), chromedp.KeyEvent("8192"), tabTo("Show the effects"), press, text("dialog [role=status]", "2 would change at once"), tabTo("Apply"), press,
		text("td", "8192"), holds("!document.getElementById('dialog').open"))
	if v := p.settingValue("ddp.min_chunk"); v != "8192" {
		t.Errorf("it is %s", v)
	}
}
