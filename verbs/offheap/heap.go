//go:build !linux || race

package offheap

import (
	"os"
	"reflect"
)

// poison is what freed memory contains.
const poison = 0xdb

// mapped gives memory of the Go heap that begins at a page.
func mapped(n int) ([]byte, error) {
	page := os.Getpagesize()
	mem := make([]byte, n+page)
	skip := -int(reflect.ValueOf(mem).Pointer()) & (page - 1)
	return mem[skip : skip+n : skip+n], nil
}

func unmap(mem []byte) {
	mem[0] = poison
	for n := 1; n < len(mem); n *= 2 { // the race detector makes each access slow
		copy(mem[n:], mem[:n])
	}
}
