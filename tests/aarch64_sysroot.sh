#!/bin/sh
# usage: aarch64_sysroot.sh FOLDER
# Fills FOLDER with the arm64 libraries that the program is built with, from the Debian mirrors this machine uses. apt gets a
# state of its own for that, so nothing of the machine's packages or settings changes, and no rights are needed.
set -eu
packages="libc6-dev libgomp1 libjansson-dev libsqlite3-dev libinih-dev librandom123-dev libcmocka-dev"

for program in apt-get dpkg-deb; do
    command -v $program >/dev/null 2>&1 || { echo "The arm64 libraries come as Debian packages, but there is no $program here" >&2; exit 1; }
done
mkdir -p "$(dirname "$1")"
folder=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
[ "$(cat "$folder/packages" 2>/dev/null || true)" != "$packages" ] || exit 0 # complete since an earlier time
work=$folder.apt
rm -rf "$folder" "$work"
mkdir -p "$folder" "$work/state/lists/partial" "$work/cache/archives/partial"
: >"$work/status"
cat >"$work/apt.conf" <<CONF
Dir::State "$work/state";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Log "$work";
APT::Architecture "arm64";
#clear APT::Architectures;
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Debug::NoLocking "true";
CONF
export APT_CONFIG="$work/apt.conf"

fail() {
    tail -n 20 "$work/log" >&2
    echo "The arm64 libraries cannot be had: $*" >&2
    exit 1
}
# Other sources than Debian's may have nothing for arm64; what counts is that the packages come.
apt-get update >"$work/log" 2>&1 || true
# shellcheck disable=SC2086
apt-get install -y --no-install-recommends --download-only $packages >>"$work/log" 2>&1 ||
    fail "apt found no packages of architecture arm64 for$(printf ' %s' $packages)"
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$folder" >>"$work/log" 2>&1 || fail "$package cannot be unpacked"
done

# /lib is /usr/lib, as on an installed system, and links lead to places inside.
if [ -d "$folder/lib" ] && [ ! -L "$folder/lib" ]; then
    cp -a "$folder/lib/." "$folder/usr/lib/"
    rm -r "${folder:?}/lib"
fi
[ -e "$folder/lib" ] || ln -s usr/lib "$folder/lib"
find "$folder" -type l -lname '/*' | while read -r link; do
    ln -sfn "$folder$(readlink "$link")" "$link"
done
rm -rf "$work"
printf '%s\n' "$packages" >"$folder/packages"
