// Command fuzz runs all fuzz targets of the tree in turn, those with the fewest
// executions first, and adds its counts to the table in docs/fuzzing.md. The
// corpora stay in Go's build cache.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	total := flag.Duration("time", time.Hour, "when to end")
	slice := flag.Duration("slice", 10*time.Second, "how long one target runs before the next")
	only := flag.String("only", "", "run only targets whose `NAME` contains this")
	page := flag.String("page", "docs/fuzzing.md", "the page with the table, `FILE`")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *page, *only, *total, *slice); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, page, only string, total, slice time.Duration) error {
	names, err := targets(".")
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, only) })
	if len(names) == 0 {
		return fmt.Errorf("no fuzz target has %q in its name", only)
	}
	end := time.Now().Add(total)
	var failed []string
	turns := newTurns(names)
	for time.Now().Add(slice).Before(end) && ctx.Err() == nil {
		t, err := readTable(page)
		if err != nil {
			return err
		}
		name := turns.next(t)
		if name == "" {
			break // all have failed
		}
		r, err := fuzz(ctx, name, slice)
		t.add(name, r)
		if err := t.write(page); err != nil {
			return err
		}
		fmt.Printf("%s: %d executions, %.0f/s\n", name, r.executions, r.speed)
		if err != nil && ctx.Err() == nil {
			fmt.Printf("%v\n%s", err, r.output)
			failed = append(failed, name)
			turns.drop(name)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// split gives a target's folder and function.
func split(name string) (folder, function string) {
	return filepath.Split(name)
}
