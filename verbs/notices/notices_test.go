package notices

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Each request for a file is answered once, even if input came before it. A forgotten file
// is never reported.
func TestNotices(t *testing.T) {
	came := make(chan uint64, 200)
	n, err := New(func(key uint64) { came <- key })
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	const high = 1 << 40 // a key of more than 32 bits
	files := make([]int, 100)
	for i := range files {
		if files[i], err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(files[i])
	}
	write := func(i int) {
		if _, err := unix.Write(files[i], []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Error(err)
		}
	}
	request := func(i int) {
		if err := n.Request(files[i], high+uint64(i)); err != nil {
			t.Error(err)
		}
	}
	for _, written := range []bool{false, true} { // before the request
		for i := range files {
			request(i)
			if !written {
				write(i)
			}
		}
		seen := make(map[uint64]bool)
		for range files {
			seen[<-came-high] = true
		}
		if len(seen) != len(files) || len(came) > 0 {
			t.Errorf("written %t: %d of %d files, %d too many", written, len(seen), len(files), len(came))
		}
	}
	n.Forget(files[0])
	write(0)
	request(1)
	if key := <-came; key != high+1 || len(came) > 0 {
		t.Errorf("%d came for a file that was forgotten", key-high)
	}
}
