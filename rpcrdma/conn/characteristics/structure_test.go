package characteristics

import "testing"

// TestOneStructure: the first receives with target segments are those that are
// announced, for as long as they are not smaller.
func TestOneStructure(t *testing.T) {
	var c State
	c.Start(Config{On: true, Places: true}, 4096)
	for _, step := range []struct{ receive, told uint32 }{{4096, 0}, {9216, 9216}, {33792, 9216}, {8192, 0}, {9216, 9216}} {
		c.Receive = step.receive
		c.derive()
		if got := c.Own.Buffer.Length; got != step.told || c.Targets.Tell(step.receive).Length != step.told {
			t.Errorf("receives of %d bytes: structure of %d", step.receive, got)
		}
	}
	if c.Apply(Config{On: true}); len(c.Own.Buffer.Groups) > 0 {
		t.Error("announced while it is off")
	}
}
