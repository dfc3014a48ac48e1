// Package nfs is the upper-layer bindings of the Network File System: versions
// 2, 3 and 4 with all minor versions up to 4.2 and extended attributes, their
// callbacks, and the programs beside them: MOUNT, NLM and NSM. RFC 8267 says
// what is DDP-eligible:
//
//   - versions 2 and 3: the data of WRITE, the target of SYMLINK; the data of
//     READ and the target of READLINK in results;
//   - version 4: the data of WRITE, the target in CREATE; the data of READ and
//     the target of READLINK in results. READ_PLUS is not, nor is anything of
//     a callback;
//   - MOUNT, NLM, NSM: nothing.
//
// The tables follow the protocols' own XDR (RFC 1094, 1813, 7531, 5662, 7863,
// 8276) field by field. Parts of results without a maximum count as what the
// Linux client provides for, or more: see docs/bindings.md.
package nfs
