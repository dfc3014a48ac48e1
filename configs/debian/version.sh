#!/bin/sh
# Prints the version of the packages, from git describe's words in VERSION: one that grows.
# v1.2.3 is 1.2.3, v1.2.3-rc.1 before it 1.2.3~rc.1, v1.2.3-5-gabc1234 after it
# 1.2.3+5.gabc1234. A commit without a tag before it is 0~ and its time, SOURCE_DATE_EPOCH.
# The release after it is always 1.
set -eu

v=$(echo "$VERSION" | sed 's/^v\([0-9]\)/\1/; /^[0-9.]*-dirty$/!s/^\([0-9][0-9.]*\)-\([A-Za-z]\)/\1~\2/; s/-/+/; s/[^A-Za-z0-9.+~]/./g')
case $v in
[0-9]*.*) echo "$v" ;;
*) echo "0~$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$v" ;;
esac
