#!/bin/sh
# Makes the release of what is committed twice, in two clones with different umasks and time
# zones, and compares the checksums. The first uses the build cache, the second an empty one:
# so nothing that an earlier build left gets into a release.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
once() { # PLACE UMASK ZONE CACHE
	git clone -q "$top" "$work/$1/rdmad"
	(umask "$2" && cd "$work/$1/rdmad" && TZ=$3 GOCACHE=$4 make release VERSION="$(git -C "$top" describe --tags --always)" >/dev/null)
}
once a 022 UTC "$(go env GOCACHE)"
once elsewhere/b 077 Asia/Tokyo "$work/cache"
diff -u "$work/a/rdmad/bin/release/SHA256SUMS" "$work/elsewhere/b/rdmad/bin/release/SHA256SUMS"
cat "$work/a/rdmad/bin/release/SHA256SUMS"
echo "both builds are the same"
