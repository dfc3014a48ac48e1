package guest

import (
	"bytes"
	"regexp"
	"sync"
)

// consoleLimit is how many bytes of the console are kept, from its end.
const consoleLimit = 1 << 20

// oopsMarks are texts that a broken kernel prints.
var oopsMarks = [][]byte{
	[]byte("Kernel panic - not syncing"),
	[]byte("Oops:"),
	[]byte("general protection fault"),
	[]byte("BUG: unable to handle"),
	[]byte("BUG: kernel NULL pointer"),
	[]byte("kernel BUG at"),
	[]byte("refcount_t:"),
}

// oopsPlace are the lines after a mark that say where the kernel broke: the
// instruction, the work queue, and the functions that called it. Those after "? "
// were only found on the stack.
var oopsPlace = regexp.MustCompile(`^(?:\[ *\d+\.\d+\])? *((?:Workqueue|RIP): .*|[\w.]+\+0x[0-9a-f]+/.*)`)

// mostPlaces is how many of these lines are kept.
const mostPlaces = 16

// console keeps the output of the guest's serial port and of QEMU.
type console struct {
	mu     sync.Mutex
	text   []byte
	oops   []byte // the first line with a mark, and where it was
	places int    // lines of the place
	line   []byte // the unfinished line
}

// Write appends p. It never fails.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, p...)
	if len(c.text) > 2*consoleLimit {
		c.text = append(c.text[:0], c.text[len(c.text)-consoleLimit:]...)
	}
	c.line = append(c.line, p...)
	for {
		line, rest, found := bytes.Cut(c.line, []byte{'\n'})
		if !found {
			break
		}
		c.inspect(line)
		c.line = append(c.line[:0], rest...)
	}
	if len(c.line) > consoleLimit {
		c.line = c.line[:0]
	}
	return len(p), nil
}

func (c *console) inspect(line []byte) {
	if c.oops != nil {
		if place := oopsPlace.FindSubmatch(line); place != nil && c.places < mostPlaces {
			c.places++
			c.oops = append(append(c.oops, "; "...), bytes.TrimSpace(place[1])...)
		}
		return
	}
	for _, mark := range oopsMarks {
		if bytes.Contains(line, mark) {
			c.oops = bytes.Clone(bytes.TrimSpace(line))
			return
		}
	}
}

// Oops returns the first line with which the kernel said that it is broken and the
// functions in which it was, or "".
func (c *console) Oops() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.oops)
}

// String returns the last bytes of the console.
func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text[max(0, len(c.text)-consoleLimit):])
}
