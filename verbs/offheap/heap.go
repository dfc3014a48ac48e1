//go:build !linux || race

package offheap

import (
	"os"
	"reflect"
)

// poison is written to freed memory, only at every poisonEvery bytes, because the race
// detector makes each access slow.
const (
	poison      = 0xdb
	poisonEvery = 512
)

// mapped returns memory of the Go heap that begins at a page.
func mapped(n int) ([]byte, error) {
	page := os.Getpagesize()
	mem := make([]byte, n+page)
	skip := -int(reflect.ValueOf(mem).Pointer()) & (page - 1)
	return mem[skip : skip+n : skip+n], nil
}

func unmap(mem []byte) {
	for i := 0; i < len(mem); i += poisonEvery {
		mem[i] = poison
	}
}
