package cli

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// characteristicsTable shows the characteristics that the ends of a connection
// announced.
func characteristicsTable(c *rdmadv1.Characteristics) *output.Table {
	t := &output.Table{Columns: []output.Column{{Name: "CHARACTERISTIC"}, {Name: "OWN"}, {Name: "PEER"}}}
	for _, row := range []struct {
		name string
		of   func(*rdmadv1.CharacteristicValues) string
	}{
		{"receive size", func(v *rdmadv1.CharacteristicValues) string { return fmt.Sprintf("%d bytes", v.GetReceiveSize()) }},
		{"targets", func(v *rdmadv1.CharacteristicValues) string { return targets(v.GetTargets()) }},
		{"remote invalidation", func(v *rdmadv1.CharacteristicValues) string { return onOff(v.GetRemoteInvalidation()) }},
		{"backward requests", (*rdmadv1.CharacteristicValues).GetBackward},
		{"transmissions", func(v *rdmadv1.CharacteristicValues) string { return orNone(strings.Join(v.GetRtr(), " ")) }},
		{"of a request taken", func(v *rdmadv1.CharacteristicValues) string { return fmt.Sprint(v.GetRequestTransmissions()) }},
		{"of a response made", func(v *rdmadv1.CharacteristicValues) string { return fmt.Sprint(v.GetResponseTransmissions()) }},
	} {
		t.Row(row.name, row.of(c.GetOwn()), row.of(c.GetPeer()))
	}
	return t
}

// targets writes segments in which items may be placed.
func targets(groups []*rdmadv1.BufferSegments) string {
	out := make([]string, len(groups))
	for i, g := range groups {
		out[i] = fmt.Sprintf("%d of %d bytes", g.GetCount(), g.GetLength())
	}
	return orNone(strings.Join(out, ", "))
}
