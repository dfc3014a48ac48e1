package verbstest

import "testing"

// Run tests a provider. Each test gets fresh providers and leaves nothing
// behind: no object, no goroutine.
func Run(t *testing.T, target Target) {
	for _, c := range suite {
		t.Run(c.name, func(t *testing.T) { c.run(newEnv(t, target)) })
	}
}

var suite = []struct {
	name string
	run  func(*env)
}{
	{"SendOrder", testSendOrder},
	{"CompletionOrder", testCompletionOrder},
	{"WriteThenSend", testWriteThenSend},
	{"ReadAfterWrite", testReadAfterWrite},
}
