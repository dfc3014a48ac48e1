package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestPlots: the plots have what the connections do, a line for a change of the
// settings, and the latest values as text.
func TestPlots(t *testing.T) {
	p := open(t, auth.Operator)
	p.do("plots", holds("document.querySelectorAll('.plot canvas').length === 5"), text(".plots + div", "No change of the settings in the time shown"))
	p.busy("1")
	p.do("values", text(".values tr", "RDMA operations: Writesper call0.5"), holds("Number(document.querySelector('.values td.number').textContent.replaceAll(',', '')) > 0"))
	if label := p.get(`document.querySelector(".plot [role=img]").getAttribute("aria-label")`); !strings.HasPrefix(label, "Calls, per second. Now: all ") {
		t.Errorf("the plot is called %s", label)
	}
	if marks := p.get("String(" + marked + ")"); marks != "false" {
		t.Error("a plot has a line before the first change")
	}
	p.setMinChunk(8192)
	p.do("a line for the change", text(".changes li", "r1 SET by anonymous: ddp.min_chunk at global: not set → 8192"), holds(marked))
}

// marked says whether the first plot has a vertical line in the colour of changes, which
// nothing else of that plot has.
const marked = `(() => {
	const c = document.querySelector(".plot canvas"), probe = document.body.appendChild(Object.assign(document.createElement("span"), {className: "warn"}));
	const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
	probe.remove();
	const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height), found = new Array(c.width).fill(0);
	for (let i = 0; i < data.length; i += 4) {
		if (data[i + 3] > 60 && Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 20) found[(i / 4) % c.width]++;
	}
	return Math.max(...found) > c.height / 4;
})()`

// busy has a connection answer calls until the test ends, with an RDMA Write for
// every second one.
func (p *page) busy(id string) {
	done, ended := make(chan struct{}), make(chan struct{})
	plane := p.plane
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			plane.Count(id, func(c *dataplane.ConnInfo) {
				c.Stats.Calls += 10
				c.Stats.Replies += 10
				c.Stats.RDMAWrites += 5
				c.Stats.BytesSent += 5 << 20
			})
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	p.t.Cleanup(func() {
		close(done)
		<-ended
	})
}

// setMinChunk changes ddp.min_chunk as another client.
func (p *page) setMinChunk(size uint32) {
	p.t.Helper()
	_, err := rdmadv1.NewSettingsServiceClient(p.client).SetSettings(p.t.Context(), &rdmadv1.SetSettingsRequest{
		Settings: &rdmadv1.Settings{Ddp: &rdmadv1.DdpSettings{MinChunk: proto.Uint32(size)}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestConditionsAtOnce: a condition, and a listener that is new, show without polling.
func TestConditionsAtOnce(t *testing.T) {
	p := open(t, auth.Viewer)
	p.do("no polling", chromedp.Evaluate[chromedp.Void]("window.setInterval = () => 0"), p.navigate("#/settings"), text("h1", "Settings"),
		p.navigate("#/overview"), text(".good", "conditions are OK"))
	p.plane.Degrade("nfs", "the device is gone")
	p.do("a condition", text("td", "listener nfs"), text("td", "the device is gone"))
	if _, err := p.manager.Listeners.Add(t.Context(), spec.Listener{Name: "second", Provider: "softiwarp", Address: "127.0.0.1:20059", Service: "export"}); err != nil {
		t.Fatal(err)
	}
	p.do("a listener", text("td", "127.0.0.1:20059"))
	if _, err := p.manager.Listeners.Remove(t.Context(), "nfs", 0); err != nil {
		t.Fatal(err)
	}
	p.do("it is gone", text(".good", "conditions are OK"), holds("![...document.querySelectorAll('td')].some((e) => e.textContent === '127.0.0.1:20049')"))
}
