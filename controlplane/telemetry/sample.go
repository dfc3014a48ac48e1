package telemetry

import (
	"cmp"
	"slices"
	"time"
	"weak"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/histogram"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Sample returns the work since the last sample. A connection that came up since then counts
// from its start. Those that ended count in their listeners. If this sampler already used the
// look of the cell, it takes another one. Samplers whose samples begin and end with the same
// looks share one, so it must not be changed.
func (s *Sampler) Sample(now time.Time) *Sample {
	before, look := s.last, s.source(now, s.last.at, s.cell)
	s.last = look
	out, _ := look.samples.get(weak.Make(before), func() (*Sample, error) { return sample(before, look), nil })
	return out
}

// sample compares two looks.
func sample(before, look *Look) *Sample {
	out := &Sample{At: look.at, Seconds: look.at.Sub(before.at).Seconds()}
	out.Connections = connections(before, look)
	var served, all histogram.Snapshot
	var then, now rpcrdma.Stats
	for name, l := range look.listeners {
		was := before.listeners[name]
		if was == nil || was.Since != l.Since { // one that was added again counts from its start
			was = &dataplane.ListenerStats{}
		}
		out.Listeners = append(out.Listeners, listener(was, l, out.Seconds, &served))
		all.Add(&served)
		then.Add(&was.Totals)
		now.Add(&l.Totals)
	}
	out.Total = rates(&then, &now, out.Seconds)
	out.P50, out.P99 = quantiles(&all)
	slices.SortFunc(out.Listeners, func(a, b Listener) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Encoded returns the sample as encoded by encode, which is called once for each form. The
// bytes must not be changed.
func (s *Sample) Encoded(form string, encode func(*Sample) ([]byte, error)) ([]byte, error) {
	return s.encoded.get(form, func() ([]byte, error) { return encode(s) })
}

// connections compares two looks at connections. Both have them by id.
func connections(before, now *Look) []Connection {
	seconds := now.connectionsAt.Sub(before.connectionsAt).Seconds()
	out := make([]Connection, len(now.connections))
	was := before.connections
	for i := range now.connections {
		c := &now.connections[i]
		for len(was) > 0 && dataplane.CompareID(was[0].id, c.id) < 0 { // it has ended
			was = was[1:]
		}
		var then rpcrdma.Stats
		if len(was) > 0 && was[0].id == c.id {
			then = was[0].stats
		}
		out[i] = Connection{ID: c.id, Rates: rates(&then, &c.stats, seconds), InProgress: c.inProgress, Credits: c.credits}
	}
	return out
}

// listener compares two looks at a listener. served becomes its service times.
func listener(before, now *dataplane.ListenerStats, seconds float64, served *histogram.Snapshot) Listener {
	served.Between(&before.ServiceTime, &now.ServiceTime)
	out := Listener{
		Name:        now.Name,
		Rates:       rates(&before.Totals, &now.Totals, seconds),
		Connections: now.Connections,
		Memory:      now.Memory,
	}
	out.P50, out.P99 = quantiles(served)
	return out
}

func quantiles(served *histogram.Snapshot) (p50, p99 time.Duration) {
	return time.Duration(served.Quantile(0.5)), time.Duration(served.Quantile(0.99))
}

// rates divides what was counted by the time; 0 of no time.
func rates(before, now *rpcrdma.Stats, seconds float64) Rates {
	per := func(before, now uint64) float64 {
		if now <= before || seconds <= 0 {
			return 0
		}
		return float64(now-before) / seconds
	}
	return Rates{
		Calls:               per(before.Calls, now.Calls),
		Replies:             per(before.Replies, now.Replies),
		BytesReceived:       per(before.BytesReceived, now.BytesReceived),
		BytesSent:           per(before.BytesSent, now.BytesSent),
		Sends:               per(before.Sends, now.Sends),
		RDMAReads:           per(before.RDMAReads, now.RDMAReads),
		RDMAWrites:          per(before.RDMAWrites, now.RDMAWrites),
		SendsWithInvalidate: per(before.SendsWithInvalidate, now.SendsWithInvalidate),
		Errors:              per(before.Errors, now.Errors),
	}
}
