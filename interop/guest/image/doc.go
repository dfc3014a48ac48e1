// Package image builds the files that a kernel guest boots from: a Debian
// kernel, the siw module built from the source of that kernel, and an initramfs
// with the programs that tests run.
//
// The package installs nothing on the host. The packages come from the pool
// that interop/deps.sh fills. They are unpacked into a temporary directory. The
// result is cached outside the source tree, under a key of the recipe and the
// package versions. It appears there in one step. Processes that need the same
// image wait for the one that builds it.
//
// Callers must run deps.sh first (see [Find]). They must not change the files
// of an Image, because other processes boot from them, too.
package image
