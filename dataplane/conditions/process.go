package conditions

import "fmt"

// The shares of memory and of descriptors, in percent, from which they are nearly used up.
const (
	muchMemory      = 95
	manyDescriptors = 90
)

// MemoryUse checks the memory of the process: outside the Go heap, of the Go runtime, and the
// limit of both, in bytes. less is why the limit is lower than limits.memory, or "".
func MemoryUse(mapped, runtime, limit int64, less string) (*Reason, string) {
	if mapped+runtime < limit/100*muchMemory {
		return MemoryFree, ""
	}
	text := fmt.Sprintf("%d of %d MiB are in use: %d for calls, replies and receives, %d by the Go runtime",
		(mapped+runtime)>>20, limit>>20, mapped>>20, runtime>>20)
	if less != "" {
		text += "; " + less
	}
	return MemoryNearLimit, text
}

// DescriptorUse checks how many files the process has open, and may have.
func DescriptorUse(open, limit int) (*Reason, string) {
	if 100*open < limit*manyDescriptors {
		return DescriptorsFree, ""
	}
	return DescriptorsNearLimit, fmt.Sprintf("%d of %d files are open", open, limit)
}
