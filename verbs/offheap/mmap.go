//go:build linux && !race

package offheap

import (
	"sync"

	"golang.org/x/sys/unix"
)

// spare keeps mappings that the kernel could not unmap: unmapping a part of a
// larger mapping makes one mapping more, and a process may have only
// vm.max_map_count. Their pages are given back, and the addresses are used again.
var spare struct {
	mu     sync.Mutex
	bySize map[int][][]byte
}

func mapped(n int) ([]byte, error) {
	if mem := takeSpare(n); mem != nil {
		return mem, nil
	}
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func unmap(mem []byte) {
	if unix.Munmap(mem) != nil {
		giveBack(mem)
	}
}

// giveBack gives the pages back and keeps the addresses. It fails only for locked
// memory, and nothing locks this memory.
func giveBack(mem []byte) {
	if err := unix.Madvise(mem, unix.MADV_DONTNEED); err != nil {
		panic("offheap: give memory back: " + err.Error())
	}
	keepSpare(mem)
}

func takeSpare(n int) []byte {
	spare.mu.Lock()
	defer spare.mu.Unlock()
	list := spare.bySize[n]
	if len(list) == 0 {
		return nil
	}
	mem := list[len(list)-1]
	spare.bySize[n] = list[:len(list)-1]
	return mem
}

func keepSpare(mem []byte) {
	spare.mu.Lock()
	defer spare.mu.Unlock()
	if spare.bySize == nil {
		spare.bySize = make(map[int][][]byte)
	}
	spare.bySize[len(mem)] = append(spare.bySize[len(mem)], mem)
}
