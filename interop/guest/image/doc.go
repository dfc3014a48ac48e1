// Package image builds what a kernel guest boots from: a Debian kernel, the
// siw module built from the same kernel's source, and an initramfs with the
// programs that tests run.
//
// Nothing is installed on the host. The packages come from the pool that
// interop/deps.sh fills, and are unpacked into a directory that is gone when the
// build ends. The result is cached outside the source tree, under a key made of
// the recipe and the package versions, and appears there whole or not at all;
// processes that want it at the same time wait for the one that builds.
//
// Callers must run deps.sh first (see [Find]) and must treat the files of an
// Image as read-only: other processes boot from them too.
package image
