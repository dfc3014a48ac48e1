package fleet

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Go program reads the clocks by __vdso_clock_gettime, code that the kernel maps into each
// process. setClock puts a jump there to code in place of __vdso_gettimeofday, which Go does not
// call: it asks the kernel, and adds seconds to the wall clock.
var skewed = []byte{
	0xb8, 228, 0, 0, 0, // mov $SYS_clock_gettime, %eax
	0x0f, 0x05, // syscall
	0x85, 0xff, // test %edi, %edi
	0x75, 10, // jne to ret: not CLOCK_REALTIME
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov seconds(%rip), %rcx
	0x48, 0x01, 0x0e, // add %rcx, (%rsi)
	0xc3, // ret
	0x90, 0x90,
} // seconds follow

// setClock sets the wall clock that a process sees ahead of the machine's, or behind it. Its
// monotonic clock stays. The process must not run meanwhile. errors.ErrUnsupported where this
// program may not write to the memory of another one.
func setClock(pid int, ahead time.Duration) error {
	start, image, err := vdso(pid)
	if err != nil {
		return err
	}
	get, err := function(image, "__vdso_clock_gettime")
	if err != nil {
		return err
	}
	day, err := function(image, "__vdso_gettimeofday")
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if os.IsPermission(err) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	} else if err != nil {
		return err
	}
	defer mem.Close()
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(day)-int32(get)-5))
	code := binary.LittleEndian.AppendUint64(bytes.Clone(skewed), uint64(int64(ahead/time.Second)))
	if _, err := mem.WriteAt(code, start+day); err != nil {
		return err
	}
	_, err = mem.WriteAt(jump, start+get)
	return err
}

// vdso reads the kernel's code in a process.
func vdso(pid int) (start int64, image []byte, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		var end int64
		if !strings.Contains(line, "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
			return 0, nil, err
		}
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if os.IsPermission(err) {
			return 0, nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		} else if err != nil {
			return 0, nil, err
		}
		defer mem.Close()
		image = make([]byte, end-start)
		_, err = mem.ReadAt(image, start)
		return start, image, err
	}
	return 0, nil, fmt.Errorf("process %d has no vdso: %w", pid, errors.ErrUnsupported)
}

// function is where a function of the image begins.
func function(image []byte, name string) (int64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	all, err := f.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if s.Name == name {
			return int64(s.Value), nil
		}
	}
	return 0, fmt.Errorf("the vdso has no %s: %w", name, errors.ErrUnsupported)
}
