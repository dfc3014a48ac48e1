package console_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

var pictures = flag.String("pictures", "", "`folder` for the documentation's pictures")

// mostPicture bounds a picture, in bytes.
const mostPicture = 150_000

// others are clients beside that of traffic.
func (p *page) others(n int) {
	p.t.Helper()
	provider, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := provider.Close(); err != nil {
			p.t.Error(err)
		}
	})
	s := rpcrdma.DefaultSettings()
	s.DDPMinChunk = 1024
	for range n {
		client, err := rpcrdma.Dial(p.t.Context(), provider, p.live.Listeners()[0].Address.String(), rpcrdma.DialConfig{Settings: &s})
		if err != nil {
			p.t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- calls(ctx, client) }()
		p.t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				p.t.Errorf("a call failed: %v", err)
			}
			client.Close()
		})
	}
}

// plotted waits until the plots have some seconds.
func plotted(seconds int) chromedp.Action[chromedp.Void] {
	return holds(`(() => {
		const time = document.querySelector(".values caption")?.textContent.match(/last (?:(\d+) min )?(\d+) s/);
		return time && 60 * (time[1] ?? 0) + Number(time[2]) >= ` + strconv.Itoa(seconds) + `; })()`)
}

// looked waits until the page has shown a view for some seconds.
func looked(seconds int) chromedp.Action[chromedp.Void] {
	return holds(`performance.now() - (window.looked ??= performance.now()) >= ` + strconv.Itoa(1000*seconds))
}

// picture takes one of what the window shows, or what another action gives.
func (p *page) picture(name string, take ...chromedp.Action[[]byte]) {
	p.t.Helper()
	image, err := chromedp.Run(p.ctx, append(take, chromedp.CaptureScreenshot())[0])
	if err != nil {
		p.t.Fatal(err)
	}
	if len(image) >= mostPicture {
		p.t.Errorf("the picture of %s has %d bytes, want less than %d", name, len(image), mostPicture)
	}
	if *pictures == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*pictures, "console-"+name+".png"), image, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// TestPictures takes a picture of each view while clients over softiwarp make calls and a
// threshold is changed. Those of the documentation show a minute.
func TestPictures(t *testing.T) {
	before, after, lines := 1, 3, 1
	if *pictures != "" {
		before, after, lines = 35, 60, 40
	}
	p := open(t, auth.Admin, traffic(t), func(p *page) { p.fleet = newNodes() })
	p.others(3)
	p.do("overview", chromedp.EmulateViewport(1200, 860), p.navigate("#/overview"), now("Calls: all", ` > "0"`), chromedp.Reload(), plotted(before))
	p.setMinChunk(1024)
	p.do("the change", text(".changes li", "1024"), now("RDMA operations: Writes", ` === "1"`), plotted(after),
		chromedp.Evaluate[chromedp.Void](`document.querySelector(".plots").scrollIntoView(); scrollBy(0, -50)`))
	p.picture("overview")
	p.do("connections", p.navigate("#/connections"), text(".bar", "4 of 4 shown"),
		holds("[...document.querySelectorAll('tbody tr')].every((r) => r.cells[6].textContent > '0')"), looked(lines))
	p.picture("connections")
	p.do("connection", p.navigate("#/connections/1"), text("h1", "Connection 1"), click("Start"), text(".sequence .rdma .what", "RDMA Write"), click("Pause"),
		chromedp.Evaluate[chromedp.Void](`document.querySelector(".sequence").scrollIntoView(); scrollBy(0, -120)`))
	p.picture("connection")
	_, err := rdmadv1.NewSettingsServiceClient(p.client).SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{
		Scope: "connection/1", Settings: creditsMax(32), ConfirmWithin: durationpb.New(patience), Comment: "a try",
	})
	if err != nil {
		t.Fatal(err)
	}
	p.do("settings", p.navigate("#/settings?scope=connection/1"), text("#confirm", "waits"), text("caption", "Values in force at connection/1, revision 2"), holds("document.querySelector('h1').textContent === 'Settings'"))
	p.picture("settings")
	p.do("change", click("Keep"), text("#notice", "is kept"), p.navigate("#/settings"), text("caption", "Values in force at global"), click("Change inline.receive_size"), text("dialog[open]", "Change inline.receive_size"),
		fill("dialog input[name=value]", "8192"), fill("dialog select[name=within]", "60s"), click("Show the effects"), text("dialog td", "PENDING_RECONNECT"),
		chromedp.Evaluate[chromedp.Void](`document.getElementById("notice").hidden = true`))
	p.picture("change", chromedp.Screenshot("dialog"))
	p.do("audit", click("Cancel"), p.navigate("#/audit"), text("td", "SettingsService/SetSettings"))
	p.picture("audit")
	p.do("fleet", p.navigate("#/fleet?by=role"), text("td", "small@2"))
	p.picture("fleet")
	p.do("rollout", p.navigate("#/fleet/rollouts/small@2"), text("td", "BAKING"))
	p.picture("rollout")
}
