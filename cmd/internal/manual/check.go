package manual

import "os"

// tester is the part of testing.TB that Check needs.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Check compares a file with the text that it should have, or writes it.
func Check(t tester, file, want string, write bool) {
	t.Helper()
	if write {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not up to date: run make generate", file)
	}
}
