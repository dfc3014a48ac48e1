package fleet

import (
	"fmt"
	"strings"
	"time"
)

// Entry is a change of the fleet in its history.
type Entry struct {
	Number              uint64 // from 1, in the order of changes
	Time                time.Time
	Actor, Role, Origin string // of the client
	Node                string // through which it made the change
	Action              string // method, such as rdmad.v1.FleetService/ApplyPolicy
	Before, After       string
	Err                 error // why the entry can't be read; nil if it can be
}

// Text describes a version for the history.
func (r *Revision) Text() string {
	parts := []string{r.Ref().String() + ": " + strings.Join(append([]string{"all nodes"}, r.Selector.Texts()...)[min(len(r.Selector), 1):], ", "), fmt.Sprintf("priority %d", r.Priority)}
	for _, scope := range r.Scopes() {
		v := r.Settings[scope]
		for _, k := range v.Keys().Keys() {
			parts = append(parts, scope.String()+" "+k.String()+"="+v.Format(k))
		}
	}
	text := strings.Join(parts, "; ")
	if r.Comment != "" {
		text += " (" + r.Comment + ")"
	}
	return text
}
