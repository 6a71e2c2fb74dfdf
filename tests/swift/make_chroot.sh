#!/bin/bash
# A Debian 13 with Swift in a folder, for tests/swift/run.sh: Debian 12 and most others have no package of it.
#     sudo tests/swift/make_chroot.sh FOLDER           3 GB, some minutes; then
#     sudo ANEMONE_SWIFT_ROOT=FOLDER ctest --preset release -R swift_package
set -euo pipefail
root=${1:?usage: make_chroot.sh FOLDER}
mirror=${ANEMONE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
if [ -L "$root/usr/bin/swift" ]; then
  echo "$root has Swift already"
  exit 0
fi
[ "$(id -u)" = 0 ] || { echo "error: a chroot is made by root" >&2; exit 2; }
command -v debootstrap >/dev/null || apt-get install -y debootstrap
[ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase trixie "$root" "$mirror"
cp /etc/resolv.conf "$root/etc/resolv.conf"
# The mount is gone when the command ends. Swift itself needs it, too: the loader finds its libraries by /proc/self/exe.
unshare -m bash -euc "mount -t proc proc '$root/proc'
  chroot '$root' sh -euc 'apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends swiftlang libstdc++-14-dev libc6-dev
    swift --version'"
