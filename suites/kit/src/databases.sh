# Starts and stops the database servers of a test run. Called by databases.rs, which holds the locks:
#   sh databases.sh start postgres|mariadb DIR PORT PASSWORD
#   sh databases.sh supervise DIR
# A database server refuses to run as root; the users that their packages create run them.
set -eu

as() { # as USER COMMAND...
    user=$1
    shift
    if [ "$(id -u)" = 0 ]; then runuser -u "$user" -- "$@"; else "$@"; fi
}

own() { # own USER PATH
    if [ "$(id -u)" = 0 ]; then chown "$1" "$2"; fi
}

find_program() { # find_program NAME PLACES...
    name=$1
    shift
    command -v "$name" 2>/dev/null && return
    for place in "$@"; do
        if [ -x "$place/$name" ]; then
            echo "$place/$name"
            return
        fi
    done
    echo "$name is not installed: run scripts/install-test-servers.sh" >&2
    exit 1
}

start_postgres() { # DIR PORT PASSWORD
    initdb=$(find_program initdb /usr/lib/postgresql/*/bin)
    pg_ctl=$(find_program pg_ctl /usr/lib/postgresql/*/bin)
    postgres=$(find_program postgres /usr/lib/postgresql/*/bin)
    rm -rf "$1/postgres"
    mkdir -p "$1/postgres"
    own postgres "$1/postgres"
    cd /
    as postgres "$initdb" -D "$1/postgres/data" -U reach -A trust -E UTF8 --locale=C -N >/dev/null
    printf 'host all all 127.0.0.1/32 md5\n' >"$1/postgres/data/pg_hba.conf"
    # A password that is quick to prove: SCRAM takes a debug build a quarter of a second for each connection.
    # Roles that a test creates have SCRAM passwords, which this server takes as well.
    printf "alter role reach password '%s'\n" "$3" |
        as postgres "$postgres" --single -D "$1/postgres/data" -c password_encryption=md5 postgres >/dev/null
    # What a test writes need not survive a power cut.
    as postgres "$pg_ctl" -D "$1/postgres/data" -l "$1/postgres/log" -w -t 60 start -o "-p $2 \
        -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c synchronous_commit=off \
        -c full_page_writes=off -c max_connections=200 -c deadlock_timeout=100ms" >/dev/null
}

start_mariadb() { # DIR PORT PASSWORD
    mariadbd=$(find_program mariadbd /usr/sbin /usr/libexec)
    install=$(find_program mariadb-install-db /usr/bin)
    rm -rf "$1/mariadb"
    mkdir -p "$1/mariadb"
    own mysql "$1/mariadb"
    cat >"$1/mariadb.sql" <<SQL
create user if not exists reach@'%' identified by '$3';
create user if not exists reach@localhost identified by '$3';
grant all on *.* to reach@'%' with grant option;
grant all on *.* to reach@localhost with grant option;
SQL
    chmod 644 "$1/mariadb.sql"
    cd /
    as mysql "$install" --no-defaults --datadir="$1/mariadb/data" --skip-test-db \
        --auth-root-authentication-method=normal >/dev/null
    # The shell that waits for it must hold nothing of ours open: whoever started us waits for that.
    (
        exec >"$1/mariadb/log" 2>&1 </dev/null
        as mysql setsid "$mariadbd" --no-defaults --datadir="$1/mariadb/data" --port="$2" --bind-address=127.0.0.1 \
            --socket="$1/mariadb/socket" --pid-file="$1/mariadb/pid" --init-file="$1/mariadb.sql" \
            --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --skip-name-resolve \
            --character-set-server=utf8mb4
    ) &
    # The process id is written once the server listens and the first file has run.
    tries=0
    while [ ! -s "$1/mariadb/pid" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 600 ]; then
            cat "$1/mariadb/log" >&2
            exit 1
        fi
        sleep 0.1
    done
}

stop_all() { # DIR
    if [ -s "$1/postgres/data/postmaster.pid" ]; then
        pg_ctl=$(find_program pg_ctl /usr/lib/postgresql/*/bin)
        as postgres "$pg_ctl" -D "$1/postgres/data" -m immediate -w stop >/dev/null 2>&1 || true
    fi
    if [ -s "$1/mariadb/pid" ]; then
        pid=$(cat "$1/mariadb/pid")
        kill -9 "$pid" 2>/dev/null || true
    fi
    # Removing thousands of files takes its time; nobody who wants to start anew has to wait for it.
    mv "$1" "$1.gone.$$"
}

# Every process that uses a server holds a shared lock on DIR.users. Fifteen seconds after the last one let
# go the servers stop; a process that comes in between keeps them.
supervise() { # DIR
    cd /
    while :; do
        flock -x "$1.users" true
        sleep 15
        exec 8>"$1.lock"
        flock -x 8
        if [ -z "$(find "$1.users" -newermt '-15 seconds')" ] && flock -n -x "$1.users" true; then
            stop_all "$1"
            exec 8>&-
            rm -rf "$1.gone.$$"
            exit 0
        fi
        exec 8>&-
    done
}

case $1 in
start) "start_$2" "$3" "$4" "$5" ;;
supervise) supervise "$2" ;;
esac
