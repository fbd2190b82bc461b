#!/bin/sh
# Installs the servers that the tests start for themselves: PostgreSQL, MariaDB and Redis.
#
# Does nothing where the programs are there already. Needs root and apt (Debian, Ubuntu). No system service
# is started: the tests run their own instances, in temporary folders, on free ports.
set -eu

missing=""
found() { command -v "$1" >/dev/null 2>&1 || ls $2 >/dev/null 2>&1; }
found postgres "/usr/lib/postgresql/*/bin/postgres" || missing="$missing postgresql"
found mariadbd "/usr/sbin/mariadbd" || missing="$missing mariadb-server"
found redis-server "/usr/bin/redis-server" || missing="$missing redis-server"
if [ -z "$missing" ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "install these packages and run again:$missing" >&2
    exit 1
fi

# `policy-rc.d` is asked by every package before it starts a service; 101 means no. A policy that is there
# already is put aside and put back.
policy=/usr/sbin/policy-rc.d
saved=""
if [ -e "$policy" ]; then
    saved="$policy.saved.$$"
    mv "$policy" "$saved"
fi
restore() {
    rm -f "$policy"
    if [ -n "$saved" ]; then mv "$saved" "$policy"; fi
}
trap restore EXIT
trap 'exit 1' INT TERM
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
apt-get update >&2
# shellcheck disable=SC2086 # one word for each package
apt-get install -y --no-install-recommends $missing >&2
