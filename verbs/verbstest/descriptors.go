package verbstest

import "os"

// testDescriptors checks that a connection opens as many files as its provider announces.
func testDescriptors(e *env) {
	const connections = 8
	e.pair(Options{OneCQ: true}) // opens what connections share
	before := descriptors(e)
	for range connections {
		e.pair(Options{OneCQ: true})
	}
	want := connections * (e.active.Descriptors() + e.passive.Descriptors())
	if got := descriptors(e) - before; got != want && before > 0 {
		e.Errorf("%d connections opened %d files, want %d", connections, got, want)
	}
}

// descriptors counts the files that the process has open. It returns 0 without /proc.
func descriptors(e *env) int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		e.Logf("files are not counted: %v", err)
	}
	return len(names)
}
