// Package nfs implements the upper-layer bindings of the Network File System: versions 2, 3
// and 4 with all minor versions up to 4.2 and extended attributes, and the related programs
// MOUNT, NLM and NSM. RFC 8267 defines what is DDP-eligible:
//
//   - versions 2 and 3: the data of WRITE and the target of SYMLINK; in results, the data of
//     READ and the target of READLINK;
//   - version 4: the data of WRITE and the target in CREATE; in results, the data of READ and
//     the target of READLINK. READ_PLUS has none;
//   - MOUNT, NLM, NSM: nothing.
//
// The tables follow the protocols' own XDR (RFC 1094, 1813, 7531, 5662, 7863, 8276) field
// by field. Parts of results without a maximum count as at least what the Linux client
// provides for: see docs/bindings.md.
package nfs
