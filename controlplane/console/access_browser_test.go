package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
)

// attack is a page of another origin. Its host is the console's, so that the browser
// sends the session's cookie, as SameSite allows. It tries to change a setting and to
// end the session, to read the status, and to show the console in a frame.
const attack = `<!doctype html><title>attack</title><iframe id="frame" src="CONSOLE/"></iframe><script>
const settings = "CONSOLE/rdmad.v1.SettingsService/SetSettings", body = '{"settings": {"credits": {"max": 7}}}';
const tries = {
  json: fetch(settings, {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"}, body}),
  text: fetch(settings, {method: "POST", credentials: "include", mode: "no-cors", body}),
  logout: fetch("CONSOLE/session", {method: "DELETE", credentials: "include"}),
  read: fetch("CONSOLE/rdmad.v1.StatusService/GetStatus", {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"}, body: "{}"}).then((r) => r.text()),
  script: new Promise((done) => {
    const s = document.createElement("script");
    s.src = "CONSOLE/main.js";
    s.onload = () => done("loaded");
    s.onerror = () => done("refused");
    document.head.append(s);
  }),
};
Promise.allSettled(Object.entries(tries).map(async ([name, t]) => { try { const r = await t; return name + "=" + (r.status ?? r); } catch { return name + "=refused"; } }))
  .then(async (all) => {
    const form = document.createElement("form");
    Object.assign(form, {method: "post", action: settings, enctype: "text/plain", target: "sink"});
    document.body.append(Object.assign(document.createElement("iframe"), {name: "sink"}), form);
    form.submit();
    document.body.append(all.map((r) => r.value).join(" "));
  });
</script>`

// TestAttacksInTheBrowser: a page of another port of the same host, which the browser
// takes for the same site, changes and learns nothing.
func TestAttacksInTheBrowser(t *testing.T) {
	p := open(t, auth.Admin, func(p *page) { p.refusals = []string{"frame-ancestors"} })
	var origin string
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(strings.ReplaceAll(attack, "CONSOLE", origin))) // the browser shows it, or the test fails
	}))
	defer evil.Close()
	origin = "http://" + p.console
	before := p.settingValue("credits.max")
	p.do("attack", chromedp.Navigate(evil.URL), text("body", "json=refused text=refused logout=refused read=refused script=refused"))
	if v := p.settingValue("credits.max"); v != before {
		t.Errorf("credits.max is %s", v)
	}
	p.do("the session goes on", p.navigate(""), text("#who", "anonymous, admin"))
}

// TestScriptsInThePage: texts cannot become scripts or styles, even if a bug of the
// page would let them.
func TestScriptsInThePage(t *testing.T) {
	p := open(t, auth.Admin, func(p *page) { p.refusals = []string{"Content Security Policy", "TrustedHTML", "TrustedScript"} })
	for name, expression := range map[string]string{
		"markup":     `document.body.innerHTML = "<img src=x onerror='window.owned = 1'>"`,
		"script":     `document.body.append(Object.assign(document.createElement("script"), {textContent: "window.owned = 1"}))`,
		"evaluation": `setTimeout("window.owned = 1")`,
		"address":    `(() => { const a = document.createElement("a"); a.href = "javascript:window.owned = 1"; document.body.append(a); a.click(); })()`,
	} {
		refused := p.get(`(() => { try { ` + expression + `; return "taken"; } catch (e) { return e.name; } })()`)
		if name != "address" && refused != "TypeError" && refused != "EvalError" {
			t.Errorf("%s: %s", name, refused)
		}
	}
	if owned := p.get("String(window.owned)"); owned != "undefined" {
		t.Errorf("a script ran: %s", owned)
	}
}
