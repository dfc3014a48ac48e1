// Command page puts the figures of the reckoning into docs/roundtrips.md, and
// prints them.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/rdmad/rdmad/interop/reckoning"
)

func main() {
	exact := flag.String("exact", "interop/reckoning/testdata/loopback.json", "`report` of the test")
	guest := flag.String("guest", "interop/reckoning/testdata/guest.json", "`report` of the guest")
	page := flag.String("page", "docs/roundtrips.md", "the `page`")
	flag.Parse()
	if err := run(*exact, *guest, *page); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func run(exact, guest, page string) error {
	e, err := reckoning.Read(exact)
	if err != nil {
		return err
	}
	g, err := reckoning.Read(guest)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	blocks := reckoning.Blocks(e, g)
	text, err := reckoning.Fill(string(old), blocks)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		return err
	}
	for _, name := range []string{"trips", "counts", "guest"} {
		fmt.Println(blocks[name])
	}
	return nil
}
