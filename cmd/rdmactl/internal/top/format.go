package top

import (
	"fmt"
	"time"
)

// rate writes a number per second in at most five columns.
func rate(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 9.95:
		return fmt.Sprintf("%.1f", v)
	case v < 99999.5:
		return fmt.Sprintf("%.0f", v)
	case v < 999500:
		return fmt.Sprintf("%.0fk", v/1e3)
	}
	return fmt.Sprintf("%.1fM", v/1e6)
}

// count writes a number of things in at most five columns.
func count(v float64) string {
	if v < 9.95 {
		return whole(v)
	}
	return rate(v)
}

// megabytes writes bytes as 10^6 of them.
func megabytes(v float64) string {
	v /= 1e6
	switch {
	case v == 0:
		return "0"
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// size writes bytes with a binary unit.
func size(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for len(units) > 1 && v >= 1024 {
		v, units = v/1024, units[1:]
	}
	if v < 9.95 && units[0] != "B" && v != float64(int(v)) {
		return fmt.Sprintf("%.1f %s", v, units[0])
	}
	return fmt.Sprintf("%.0f %s", v, units[0])
}

// micros writes microseconds with a unit.
func micros(v float64) string {
	switch {
	case v > 0 && v < 9.95:
		return fmt.Sprintf("%.1f us", v)
	case v < 999.5:
		return fmt.Sprintf("%.0f us", v)
	case v < 999500:
		return fmt.Sprintf("%.1f ms", v/1e3)
	}
	return fmt.Sprintf("%.1f s", v/1e6)
}

// span writes a duration by its two largest units.
func span(d time.Duration) string {
	s := int(d.Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// whole writes a counter.
func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

// plural is "1 thing", "2 things".
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
