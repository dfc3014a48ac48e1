package console_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// traffic makes the page that of a data plane with a client over softiwarp, which
// makes calls one after another until the test ends. Their results have 2000 bytes,
// for which the client offers write chunks.
func traffic(t *testing.T) func(*page) {
	return func(p *page) {
		provider, err := softiwarp.New(softiwarp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		plane := dataplane.New(dataplane.Config{})
		p.live = plane
		listener, err := plane.PrepareListener(t.Context(), dataplane.ListenerConfig{
			Name: "test", Provider: provider, Address: "127.0.0.1:0", Service: "echo", Handler: echo.New(),
		})
		if err != nil {
			t.Fatal(err)
		}
		listener.Enter()
		plane.Start()
		s := rpcrdma.DefaultSettings()
		s.DDPMinChunk = 1024
		client, err := rpcrdma.Dial(t.Context(), provider, listener.Info().Address.String(), rpcrdma.DialConfig{Settings: &s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- calls(ctx, client) }()
		t.Cleanup(func() { // after that of the browser
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("a call failed: %v", err)
			}
			client.Close()
			if err := plane.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			if err := provider.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// calls makes calls until ctx ends.
func calls(ctx context.Context, client *rpcrdma.Client) error {
	const size = 2000
	buf, err := client.Alloc(ctx, size)
	if err != nil {
		return err
	}
	defer buf.Release()
	pace := time.NewTicker(time.Millisecond) // leaves time for the browser
	defer pace.Stop()
	for ctx.Err() == nil {
		<-pace.C
		call := rpcrdma.Call{
			Program: echo.Program, Version: echo.Version, Procedure: echo.ProcRead, Args: xdr.AppendUint32(nil, size), MaxReply: 4,
			Results: []rpcrdma.Result{{Buf: buf, Max: size, Find: func([]byte) int { return 0 }}},
		}
		if err := client.Call(context.Background(), &call); err != nil {
			return err
		}
	}
	return nil
}

// now waits until the latest value of a plot is as wanted.
func now(value, want string) chromedp.Action[chromedp.Void] {
	return holds(`[...document.querySelectorAll(".values tr")].some((r) => r.cells[0].textContent === ` + quote(value) + ` && r.cells[2].textContent` + want + `)`)
}

// TestTuneUnderTraffic: a threshold is changed while a client makes calls. The plots
// show it, with a line, and that it was taken back.
func TestTuneUnderTraffic(t *testing.T) {
	p := open(t, auth.Operator, traffic(t))
	p.do("before", now("Calls: all", ` > "0"`), now("RDMA operations: Writes", ` === "0"`), now("Time in the service: p99", ` > "0"`))
	p.do("change", p.navigate("#/settings"), click("Change ddp.min_chunk"), text("dialog[open]", "Change ddp.min_chunk"),
		fill("dialog input[name=value]", "1024"), click("Show the effects"), text("dialog [role=status]", "1 would change at once"),
		click("Apply"), text("td", "SET"), holds("!document.getElementById('dialog').open"))
	p.do("after", p.navigate("#/overview"), now("RDMA operations: Writes", ` === "1"`), text(".changes li", "r1 SET by anonymous: ddp.min_chunk at global: not set → 1024"))
	p.do("take it back", p.navigate("#/settings"), click("Change ddp.min_chunk"), clickOn(`document.querySelector("dialog input[name=inherit]")`),
		click("Show the effects"), click("Apply"), holds("!document.getElementById('dialog').open"))
	p.do("as before", p.navigate("#/overview"), now("RDMA operations: Writes", ` === "0"`), text(".changes li", "r2 SET"))
	p.do("roll back", p.navigate("#/settings"), click("Roll back to revision 1"), text("dialog[open]", "Roll back to revision 1"), click("Show the effects"),
		text("dialog li", "1024"), click("Apply"), holds("!document.getElementById('dialog').open"))
	p.do("after the rollback", p.navigate("#/overview"), now("RDMA operations: Writes", ` === "1"`), text(".changes li", "r3 ROLLBACK"))
}

// TestConnectionPage: one connection under traffic, with a trace that is paused.
func TestConnectionPage(t *testing.T) {
	p := open(t, auth.Operator, traffic(t))
	p.do("from the list", p.navigate("#/connections"), text(".bar", "1 of 1 shown"), clickOn(`document.querySelector("tbody a")`), text("h1", "Connection 1"))
	p.do("values", text(".facts div", "RPC-over-RDMA version1"), text(".facts div", "Largest Send to the peer4,096 bytes"), text(".facts div", "Credits granted64"),
		text(".facts div", "Extensionsnone"), text("td", "inline.send_max"), now("Calls: all", ` > "0"`))
	p.do("sizes", holds(`[...document.querySelectorAll("tr")].some((r) => r.cells[0].textContent === "1,024–2,047" && Number(r.cells[2].textContent.replaceAll(",", "")) > 0)`))
	p.do("inline", click("Start"), text(".sequence text", "READ · call · RDMA_MSG"), text(".sequence text", "write chunk 2000"), text(".sequence text", "reply SUCCESS"))
	p.setMinChunk(1024)
	p.do("RDMA Writes", text(".sequence .rdma .what", "RDMA Write, 2000 bytes"), text(".changes li", "r1"))
	// Calls go from the client on the left to rdmad, all else goes to the client.
	p.do("directions", holds(`[...document.querySelectorAll(".sequence g")].every((g) => {
		const line = g.querySelector("line"), right = Number(line.getAttribute("x2")) > Number(line.getAttribute("x1"));
		return right === g.querySelector(".what").textContent.includes("READ · call"); })`))
	p.do("pause", click("Pause"), text("[role=status]", "Paused."))
	p.do("bounded", holds("document.querySelectorAll('.sequence .what').length <= 200"))
	p.do("clear", click("Clear"), holds("document.querySelectorAll('.sequence .what').length === 0"))
	p.do("again", click("Continue"), text(".sequence .what", "RDMA Write"))
	p.do("commands", click("Copy as rdmactl command"), text("#notice", "rdmactl connections show 1"))
	p.do("settings", clickLink("Change the settings of this connection"), text("caption", "Values in force at connection/1"))
}

// TestTraceCountsDrops: the events that a trace shows and those that it counts as too fast are
// together those that there were, also after the trace was continued.
func TestTraceCountsDrops(t *testing.T) {
	p := open(t, auth.Operator)
	p.do("trace", p.navigate("#/connections/1"), click("Start"), text("[role=status]", "Live."))
	data := make([]byte, 16<<10)
	event := &rpcrdma.Operation{Op: verbs.OpSend, In: true, Length: len(data), Data: [][]byte{data}}
	total := 0
	observe := func(n int) {
		total += n
		for range n {
			p.plane.Observe("1", event)
		}
	}
	// counted are the numbers of events that the page has.
	counted := func() (shown, dropped int) {
		state := p.get(`[...document.querySelectorAll("[role=status]")].map((e) => e.textContent).find((s) => s.startsWith("Live.")).replaceAll(",", "")`)
		_, _ = fmt.Sscanf(state, "Live. %d events; %d more", &shown, &dropped)
		return shown, dropped
	}
	for round := 1; round <= 2; round++ {
		observe(20_000)
		least := total
		for shown, dropped := 0, 0; dropped == 0 || shown+dropped < least; shown, dropped = counted() {
			observe(1) // it has the number of those dropped before
		}
		if shown, dropped := counted(); shown+dropped > total {
			t.Errorf("round %d: %d events shown and %d dropped, of %d", round, shown, dropped, total)
		}
		p.do("pause", click("Pause"), text("[role=status]", "Paused."))
		p.do("continue", click("Continue"), text("[role=status]", "Live."))
	}
}

// TestClockSetBack: the plots go on when rdmad's clock is set back, with times in their order.
func TestClockSetBack(t *testing.T) {
	p := open(t, auth.Viewer)
	p.do("samples", holds(`(window.asked ??= import("/live.js").then(({ Samples }) => {
		const s = new Samples(1);
		[10, 11, 12, 13, 11.5, 12.5].forEach((at, i) => s.add({time: new Date(1000 * at).toISOString(), seconds: 1}, [i]));
		window.samples = JSON.stringify([s.times, ...s.columns]);
	}), window.samples != null)`))
	if got := p.get("samples"); got != "[[9,10,11,11.5,12.5],[null,0,1,4,5]]" {
		t.Errorf("the plots have %s", got)
	}
}

// TestStreamThatIsOpenedAgain: what the page says about a stream that ended is gone when it has the
// stream again.
func TestStreamThatIsOpenedAgain(t *testing.T) {
	p := open(t, auth.Viewer)
	p.do("connections", p.navigate("#/connections"), text(".bar", "2 of 2 shown"),
		chromedp.Evaluate[chromedp.Void](`window.alarms = []; new MutationObserver(() => alarms.push(document.getElementById("alarm").textContent)).observe(document.getElementById("alarm"), {childList: true})`))
	p.plane.Lose()
	p.do("says so", holds(`alarms.some((a) => a.includes("fell behind"))`))
	p.plane.Connect(planetest.Peer{ID: "3", Listener: "nfs", Address: "192.0.2.9:1003"})
	p.do("again", text(".bar", "3 of 3 shown"), holds("document.getElementById('alarm').hidden"))
}
