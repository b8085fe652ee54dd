#!/bin/sh
# Installs the Debian packages that tests and engines use, if this machine is Debian and we are allowed to.
set -u
missing=""
command -v stockfish >/dev/null 2>&1 || [ -x /usr/games/stockfish ] || missing="$missing stockfish"
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"
command -v godot3-server >/dev/null 2>&1 || missing="$missing godot3-server"
[ -z "$missing" ] && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "Not installed:$missing (no apt-get here; tests that need them are skipped and say so)"
    exit 0
fi
if [ "$(id -u)" = 0 ]; then
    run=""
elif sudo -n true 2>/dev/null; then
    run="sudo -n"
else
    echo "Not installed:$missing (type: sudo apt-get install$missing)"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq
failed=""
for package in $missing; do # one by one: Ubuntu has some of them only
    $run apt-get install -y -qq --no-install-recommends "$package" >/dev/null || failed="$failed $package"
done
[ -z "$failed" ] || echo "Could not install:$failed (tests that need them are skipped and say so)"
exit 0
