package loopback

import "github.com/rdmad/rdmad/verbs/driver"

// sge is a checked verbs.SGE.
type sge struct {
	mr *driver.SoftMR
	b  []byte
}

// acquireAll keeps all regions of a list from being closed until releaseAll, or none.
func acquireAll(list []sge) bool {
	for i := range list {
		if !list[i].mr.Pin() {
			releaseAll(list[:i])
			return false
		}
	}
	return true
}

func releaseAll(list []sge) {
	for i := range list {
		list[i].mr.Unpin()
	}
}
