package console_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/interop/child"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// patience bounds how long a test waits for what must happen.
const patience = 2 * time.Minute

// page is Debian's chromium at a console.
type page struct {
	t       testing.TB
	ctx     context.Context
	plane   *planetest.Plane
	manager manager.API
	live    controlplane.Dataplane // in place of plane, or nil
	fleet   grpcapi.Fleet          // or nil
	control *controlplane.Controlplane
	client  *grpc.ClientConn
	console string      // its address
	tls     *auth.Files // of the console, or nil
	rules   []auth.Rule
	rate    auth.Rate // of each client; zero for the default
	// refusals are parts of what the browser says when it refuses an attack.
	refusals []string
	stop     func() // ends the control plane
	options  []chromedp.ExecAllocatorOption
}

// serve runs a control plane with a console for clients of a role.
func (p *page) serve(role auth.Role, console string) {
	p.t.Helper()
	p.plane = &planetest.Plane{}
	p.plane.Listen("nfs", "127.0.0.1:20049")
	p.manager = planetest.NewManager(p.plane)
	var plane controlplane.Dataplane = p.plane
	if p.live != nil {
		plane = p.live
	}
	c, err := controlplane.New(p.t.Context(), controlplane.Config{
		Dataplane: plane, Manager: p.manager, Listen: "127.0.0.1:0", Daemon: grpcapi.Daemon{Version: "v1.2.3", Fleet: p.fleet},
		Console: controlplane.Console{Listen: console, TLS: p.tls}, Access: controlplane.Access{Rate: p.rate, Rules: auth.Rules{Default: &role, Rules: p.rules}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.OpenAudit(p.t.TempDir()); err != nil {
		p.t.Fatal(err)
	}
	p.plane.Use(c.Settings.Resolve)
	if p.live != nil {
		p.live.ApplySettings(dataplane.Update{Resolve: c.Settings.Resolve}, nil)
	}
	for i, peer := range []string{"192.0.2.7:1001", "192.0.2.8:1002"} {
		p.plane.Connect(planetest.Peer{ID: string(rune('1' + i)), Listener: "nfs", Address: peer})
	}
	served := make(chan error, 2)
	go func() { served <- c.Serve() }()
	go func() { served <- c.ServeConsole() }()
	p.client, err = grpc.NewClient("passthrough:///"+c.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	p.control, p.console = c, c.ConsoleAddr()
	p.stop = func() {
		p.client.Close()
		if err := errors.Join(c.Shutdown(context.Background()), <-served, <-served); err != nil {
			p.t.Error(err)
		}
		p.stop = func() {}
	}
}

// open begins a session of a role in a browser. change makes it another page.
func open(t *testing.T, role auth.Role, change ...func(*page)) *page {
	t.Helper()
	p := launch(t, role, change...)
	p.login()
	return p
}

// launch starts a control plane and a browser, without a session.
func launch(t *testing.T, role auth.Role, change ...func(*page)) *page {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("left out: %s: Debian's package chromium is missing", t.Name())
	}
	p := &page{t: t}
	for _, f := range change {
		f(p)
	}
	p.serve(role, keepPort(t))
	t.Cleanup(func() { p.stop() })
	// chromium's sandbox does not work for root and in containers.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.CombinedOutput(io.Discard), chromedp.WindowSize(1000, 800))
	options = append(options, p.options...)
	ctx, cancel := context.WithTimeout(context.Background(), patience) // t's ends before the cleanup
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	p.ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() { // a browser that does not end is killed
		if err := chromedp.Cancel(p.ctx); err != nil {
			t.Error(err)
		}
		end()
		cancel()
	})
	p.complaints()
	return p
}

// keepPort returns an address of this machine that nobody else gets, the browser's own connections included,
// until the test ends: what listens there may be started again.
func keepPort(t *testing.T) string {
	t.Helper()
	address, kept, err := child.KeepPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	return address
}

// login opens the address that rdmactl console prints.
func (p *page) login() {
	p.t.Helper()
	p.loginAt(func(address string) string { return address })
}

// loginAt opens another address in place of the one that rdmactl console prints.
func (p *page) loginAt(other func(string) string) {
	p.t.Helper()
	res, err := rdmadv1.NewConsoleServiceClient(p.client).OpenConsole(p.t.Context(), &rdmadv1.OpenConsoleRequest{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.do("login", chromedp.Navigate("about:blank"), chromedp.Navigate(other(res.GetAddress())), text("h1", "Overview"))
}

func (p *page) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		seen, _ := chromedp.Run(p.ctx, chromedp.Text("body"))
		p.t.Fatalf("%s: %v; the page shows\n%s", what, err, seen)
	}
}

// get returns the value of an expression.
func (p *page) get(expression string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// text waits until one of the elements that a selector finds has a text.
func text(selector, want string) chromedp.Action[chromedp.Void] {
	return holds("[...document.querySelectorAll(" + quote(selector) + ")].some((e) => e.textContent.includes(" + quote(want) + "))")
}

// holds waits until an expression is true.
func holds(expression string) chromedp.Action[chromedp.Void] {
	return chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(patience/3), chromedp.WithPollingInterval(20*time.Millisecond))
}

// click presses the button with a text or label.
func click(label string) chromedp.Action[chromedp.Void] {
	return clickOn(`[...document.querySelectorAll("button:enabled")].find((e) => [e.textContent.trim(), e.getAttribute("aria-label")].includes(` + quote(label) + `))`)
}

// clickLink follows a link with a text.
func clickLink(label string) chromedp.Action[chromedp.Void] {
	return clickOn(`[...document.links].find((e) => e.textContent.trim() === ` + quote(label) + `)`)
}

// clickOn waits until an element is there and nothing covers it, and clicks. All of it is one
// step of the page, which may draw itself anew at any time.
func clickOn(element string) chromedp.Action[chromedp.Void] {
	return holds(`(() => {
		const e = ` + element + `;
		if (!e?.checkVisibility()) return false;
		e.scrollIntoView({block: "nearest", inline: "nearest"});
		const [r] = e.getClientRects();
		if (!e.contains(document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2))) return false;
		e.focus();
		e.click();
		return true; })()`)
}

// fill gives a field a value, as a user does.
func fill(selector, value string) chromedp.Action[chromedp.Void] {
	return holds(`(() => {
		const e = document.querySelector(` + quote(selector) + `);
		if (!e?.checkVisibility()) return false;
		e.value = ` + quote(value) + `;
		for (const name of ["input", "change"]) e.dispatchEvent(new Event(name, {bubbles: true}));
		return true; })()`)
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// settingValue has the value of a setting at the global scope.
func (p *page) settingValue(key string) string {
	p.t.Helper()
	res, err := rdmadv1.NewSettingsServiceClient(p.client).GetSettings(p.t.Context(), &rdmadv1.GetSettingsRequest{Keys: []string{key}})
	if err != nil {
		p.t.Fatal(err)
	}
	return res.GetValues()[0].GetValue()
}

// TestLogin: the token leaves the address, does not work again, and the page
// shows the client, conditions and listeners.
func TestLogin(t *testing.T) {
	p := open(t, auth.Admin)
	p.do("overview", text("#who", "anonymous, admin"), text("td", "127.0.0.1:20049"), text("dd", "v1.2.3"))
	if address := p.get("location.href"); strings.Contains(address, "token") {
		t.Errorf("the address still has the token: %s", address)
	}
	p.do("a reload keeps the session", chromedp.Reload(), text("#who", "anonymous, admin"))
	p.do("logout", click("End session"), text("h1", "The session has ended"))
	p.do("a reload after the logout", chromedp.Reload(), text("h1", "No session"))
}

// TestChangeSetting: a change is looked at, made, confirmed, taken back and rolled
// back.
func TestChangeSetting(t *testing.T) {
	p := open(t, auth.Operator)
	p.do("open the form", chromedp.Navigate("http://"+p.console+"/#/settings"), click("Change ddp.min_chunk"), text("dialog[open]", "Change ddp.min_chunk at global"))
	p.do("a value that is out of range", fill("dialog input[name=value]", "9999999"), click("Show the effects"), text("dialog .bad", "1048576"))
	p.do("look", fill("dialog input[name=value]", "8192"), click("Show the effects"), text("dialog [role=status]", "2 would change at once"))
	if v := p.settingValue("ddp.min_chunk"); v != "4096" {
		t.Errorf("looking made it %s", v)
	}
	p.do("apply", click("Apply"), text("td", "8192"), holds("!document.getElementById('dialog').open"))
	if v := p.settingValue("ddp.min_chunk"); v != "8192" {
		t.Errorf("it is %s", v)
	}

	p.do("a choice, with a confirm window", click("Change extensions.v2"), text("dialog[open]", "Change extensions.v2"),
		fill("dialog select[name=value]", "required"), fill("dialog select[name=within]", "300s"),
		click("Show the effects"), click("Apply"), text("#confirm", "Revision 2 waits"), text("#confirm [role=timer]", "rdmad takes it back in"))
	p.do("it counts", holds(`document.querySelector("#confirm [role=timer]").textContent !== (window.before ??= document.querySelector("#confirm [role=timer]").textContent)`))
	if v := p.settingValue("extensions.v2"); v != "required" {
		t.Errorf("it is %s", v)
	}
	p.do("take it back", click("Take back"), holds("document.getElementById('confirm').hidden"))
	if v := p.settingValue("extensions.v2"); v != "off" {
		t.Errorf("it is %s", v)
	}
	p.do("and again, kept", click("Change extensions.v2"), text("dialog[open]", "Change extensions.v2"),
		fill("dialog select[name=value]", "on"), fill("dialog select[name=within]", "300s"),
		click("Show the effects"), click("Apply"), text("#confirm", "waits"), click("Keep"), holds("document.getElementById('confirm').hidden"))
	p.do("roll back", click("Roll back to revision 1"), text("dialog[open]", "Roll back to revision 1"), click("Show the effects"),
		text("dialog li", "extensions.v2 at global: on → not set"), click("Apply"), text("td", "ROLLBACK"), holds("!document.getElementById('dialog').open"))
	if v := p.settingValue("extensions.v2"); v != "off" {
		t.Errorf("it is %s", v)
	}
}

// TestConnections: sorted by a key press, and filtered.
func TestConnections(t *testing.T) {
	p := open(t, auth.Viewer)
	first := func(peer string) chromedp.Action[chromedp.Void] {
		return holds("document.querySelector('tbody tr')?.textContent.includes(" + quote(peer) + ")")
	}
	p.do("list", chromedp.Navigate("http://"+p.console+"/#/connections"), text(".bar", "2 of 2 shown"))
	p.do("sort", click("Peer"), first("192.0.2.7"), chromedp.SendKeys("th:nth-child(3) button", "\r"), first("192.0.2.8"), holds("document.querySelector('th[aria-sort=descending]').textContent === 'Peer'"))
	p.do("filter", chromedp.Evaluate[chromedp.Void](`document.dispatchEvent(new KeyboardEvent("keydown", {key: "/"}))`), holds("document.activeElement.id === 'filter'"), chromedp.KeyEvent("0.2.7"), holds("document.getElementById('filter').value === '0.2.7'"), text(".bar", "1 of 2 shown"), first("192.0.2.7"))
	p.do("none", chromedp.KeyEvent("x"), text("tbody", "No connection matches the filter."))
}

// TestReconnects: while rdmad does not answer the page says so, and then goes on
// or asks for a session.
func TestReconnects(t *testing.T) {
	p := open(t, auth.Admin)
	p.do("note the alarms", chromedp.Evaluate[chromedp.Void](`window.alarms = []; new MutationObserver(() => alarms.push(document.getElementById("alarm").textContent)).observe(document.getElementById("alarm"), {childList: true})`))
	p.stop()
	p.do("blind", text("#alarm", "rdmad does not answer since"))
	if other := p.get(`alarms.filter((a) => !a.startsWith("rdmad does not answer since")).join("; ")`); other != "" {
		t.Errorf("the page said %s", other)
	}
	p.serve(auth.Admin, p.console)
	p.do("another rdmad", text("h1", "No session"), text("main", "rdmactl console"))
	p.login()
	p.do("again", text("#who", "anonymous, admin"), holds("document.getElementById('alarm').hidden"))
}
