package main

// must ends the test with an error, if there is one.
func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// have returns the result of a call; an error ends the test: have(os.Getwd())(t).
func have[T any](v T, err error) func(tester) T {
	return func(t tester) T {
		t.Helper()
		must(t, err)
		return v
	}
}
