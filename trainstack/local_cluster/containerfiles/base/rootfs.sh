#!/bin/sh
# Create the root file system of the base image in an empty working container.
#   rootfs.sh CONTAINER MIRROR KEYRING SOURCES_LIST APT_CONF BUILDAH [OPTION…]
# debootstrap installs from MIRROR; apt in the container uses SOURCES_LIST and APT_CONF.
# Run the script in its own mount namespace (unshare --mount), so that its mounts disappear even if it is killed.
# Lines that start with "## " are the stages that the caller reports.
set -eu
container=$1 mirror=$2 keyring=$3 sources=$4 apt_conf=$5
shift 5
target=$("$@" mount "$container")
here=$(dirname "$0")
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

echo "## Debian 12 (debootstrap)"
mkdir -p "$target/etc/dpkg/dpkg.cfg.d"
cp "$here/excludes.conf" "$target/etc/dpkg/dpkg.cfg.d/trainstack"
debootstrap --variant=minbase --keyring="$keyring" bookworm "$target" "$mirror"

echo "## Python and PyTorch (apt-get install)"
cp "$sources" "$target/etc/apt/sources.list"
cp "$apt_conf" "$target/etc/apt/apt.conf.d/90build"
cp /etc/resolv.conf "$target/etc/resolv.conf"
mount -t proc proc "$target/proc"
chroot "$target" apt-get update
# shellcheck disable=SC2046 # one word per package
chroot "$target" apt-get install --yes --no-install-recommends $(cat "$here/packages.txt")
chroot "$target" useradd --uid 1000 --create-home --shell /bin/sh trainer
umount "$target/proc"

echo "## removal of unused files"
# Files of the build and of the host. The container runtime provides /dev.
rm -rf "$target"/dev/* "$target"/tmp/* "$target"/run/* "$target"/var/log/* \
  "$target"/var/cache/* "$target"/var/lib/apt/lists/* \
  "$target"/usr/share/doc/* "$target"/usr/share/man/* "$target"/usr/share/locale/* "$target"/usr/share/info/* \
  "$target/etc/resolv.conf" "$target/etc/hostname" "$target/etc/apt/apt.conf.d/90build"
# Tests, and a rule base of SymPy, which PyTorch depends on: 90 MB that training does not load.
rm -rf "$target/usr/lib/python3/dist-packages/sympy/integrals/rubi"
for package in numpy sympy; do
  find "$target/usr/lib/python3/dist-packages/$package" -type d -name tests -prune -exec rm -rf {} +
done
mkdir -p "$target/var/cache/apt/archives/partial" "$target/var/lib/apt/lists/partial"
"$@" umount "$container"
