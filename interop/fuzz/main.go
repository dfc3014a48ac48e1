// Command fuzz runs all fuzz targets of the tree in turn, those with the fewest
// executions first. It adds its counts to the table in docs/fuzzing.md. The
// corpora stay in Go's build cache.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	total := flag.Duration("time", time.Hour, "when to end")
	slice := flag.Duration("slice", 10*time.Second, "how long one target runs before the next")
	only := flag.String("only", "", "run only targets whose name contains one of `NAMES`, separated by commas")
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
	if names = picked(names, only); len(names) == 0 {
		return fmt.Errorf("no fuzz target has one of %q in its name", only)
	}
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tests, err := newBinaries(dir)
	if err != nil {
		return err
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
		r, err := tests.fuzz(ctx, name, slice)
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

// picked returns the names that contain one of the comma-separated parts.
func picked(names []string, parts string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(strings.Split(parts, ","), func(part string) bool { return strings.Contains(name, part) })
	})
}
