package manager

import (
	"encoding/json"
	"maps"
	"strings"
)

// oldFormat is the format of rdmad 1.x. Its times are numbers of nanoseconds, and some keys
// are in other places.
const oldFormat = 1

// convertOld converts the keys and values of the old format to the current one.
func convertOld(values map[string]any) {
	for _, list := range values {
		items, _ := list.([]any)
		for _, item := range items {
			if m, ok := item.(map[string]any); ok {
				convertOldItem(m)
			}
		}
	}
}

func convertOldItem(item map[string]any) {
	for key, value := range maps.Clone(item) {
		inner, _ := value.(map[string]any)
		switch {
		case strings.HasSuffix(key, "_ns"):
			delete(item, key)
			item[strings.TrimSuffix(key, "_ns")] = nanoseconds(value)
		case key == "forward":
			convertOldItem(inner)
		case key == "limits" && inner["idle"] != nil:
			inner["idle"] = nanoseconds(inner["idle"])
		case key == "access":
			delete(item, key)
			maps.Copy(item, inner)
		case key == "memory":
			delete(item, key)
			limits, _ := item["limits"].(map[string]any)
			if limits == nil {
				limits = map[string]any{}
				item["limits"] = limits
			}
			limits[key] = value
		}
	}
}

func nanoseconds(value any) any {
	if n, ok := value.(json.Number); ok {
		return n.String() + "ns"
	}
	return value
}
