package spec

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
)

// NFS serves directories by NFSv3 and MOUNT.
type NFS struct {
	Export `mapstructure:",squash"`

	Exports       []Export `mapstructure:"exports" doc:"more directories to export, each with a path and options of its own"`
	AsyncMetadata bool     `mapstructure:"async_metadata" doc:"answer changes of names and attributes before the changes are on the disk"`
	TCPListen     string   `mapstructure:"tcp_listen" is:"optional address" doc:"HOST:PORT to serve MOUNT and NFS over TCP as well; kernel clients need TCP for MOUNT"`
}

// Export is an exported directory. The keys are those of exports(5), as far as it has them.
type Export struct {
	Path              string         `mapstructure:"path" doc:"directory to export; clients mount it by this path"`
	RequireMountpoint bool           `mapstructure:"require_mountpoint" doc:"serve the directory only while a file system is mounted at it; clients wait in the meantime"`
	ReadOnly          bool           `mapstructure:"read_only" doc:"refuse every change of the export"`
	Squash            string         `mapstructure:"squash" default:"none" values:"none,root_squash,all_squash,root,all" doc:"users of clients that rdmad replaces by anonuid, if rdmad runs as root: root or all; root_squash and all_squash mean the same"`
	AnonUID           int            `mapstructure:"anonuid" default:"65534" range:"1..4294967294" doc:"user that replaces squashed users"`
	AnonGID           int            `mapstructure:"anongid" default:"65534" range:"1..4294967294" doc:"group that replaces squashed groups"`
	Clients           []ExportClient `mapstructure:"clients" doc:"networks that have access, with their options; without this key every client has access"`
}

// ExportClient has the options of an export for clients in some networks. An option that is
// not set is the export's.
type ExportClient struct {
	Networks []netip.Prefix `mapstructure:"networks" doc:"addresses and CIDRs of the clients; the longest prefix that contains a client's address counts"`
	ReadOnly bool           `mapstructure:"read_only" doc:"refuse every change by these clients; on if the export has it on"`
	Squash   string         `mapstructure:"squash" values:"none,root_squash,all_squash,root,all" doc:"as in the export, for these clients"`
	AnonUID  int            `mapstructure:"anonuid" range:"1..4294967294" doc:"as in the export, for these clients"`
	AnonGID  int            `mapstructure:"anongid" range:"1..4294967294" doc:"as in the export, for these clients"`
}

// Bounds of a service nfs.
const (
	MaxExports        = 64
	MaxExportNetworks = 1024 // of all exports together
)

// All returns all exports, with their keys. The one of the service itself is the first.
func (n *NFS) All() (all []Export, keys []string) {
	if n.Path != "" {
		all, keys = append(all, n.Export), append(keys, "nfs.")
	}
	for i := range n.Exports {
		all, keys = append(all, n.Exports[i]), append(keys, fmt.Sprintf("nfs.exports[%d].", i))
	}
	return all, keys
}

// Of returns the options of these clients of an export.
func (c *ExportClient) Of(e *Export) ExportClient {
	return ExportClient{
		Networks: c.Networks, ReadOnly: c.ReadOnly || e.ReadOnly, Squash: cmp.Or(c.Squash, e.Squash),
		AnonUID: cmp.Or(c.AnonUID, e.AnonUID), AnonGID: cmp.Or(c.AnonGID, e.AnonGID),
	}
}

// problems calls report with what is wrong with the exports together.
func (n *NFS) problems(report func(key, text string)) {
	all, keys := n.All()
	switch {
	case len(all) == 0:
		report("nfs.path", "is missing: which directory is served?")
	case n.Path == "" && !reflect.ValueOf(n.Export).IsZero():
		report("nfs.path", "is missing; the options beside it are for this directory only, give those of exports in their list")
	case len(n.Exports) > MaxExports:
		report("nfs.exports", fmt.Sprintf("has %d items; %d are possible", len(n.Exports), MaxExports))
	}
	networks, paths := 0, map[string]bool{}
	for i := range all {
		path := filepath.Clean(all[i].Path)
		if all[i].Path == "" {
			report(keys[i]+"path", "is missing: which directory is served?")
		} else if paths[path] {
			report(keys[i]+"path", path+" is exported already")
		}
		paths[path] = true
		networks += all[i].networkProblems(keys[i], report)
	}
	if networks > MaxExportNetworks {
		report("nfs", fmt.Sprintf("has %d networks of clients; %d are possible", networks, MaxExportNetworks))
	}
}

// networkProblems returns the number of networks.
func (e *Export) networkProblems(key string, report func(key, text string)) int {
	seen := map[netip.Prefix]bool{}
	n := 0
	for i := range e.Clients {
		at := fmt.Sprintf("%sclients[%d].networks", key, i)
		if len(e.Clients[i].Networks) == 0 {
			report(at, "is missing: who are these clients? 0.0.0.0/0 and ::/0 are all")
		}
		for _, p := range e.Clients[i].Networks {
			if seen[p] {
				report(at, p.String()+" is there twice")
			}
			seen[p] = true
			n++
		}
	}
	return n
}
