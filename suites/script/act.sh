#!/bin/sh
# A program that behaves as its first argument says: the upstream of the script adapter's tests.
case "$1" in
answer) printf '{"status": "success", "data": {"count": 42, "items": ["a"]}}\n' ;;
say) printf '%s\n' "$2" ;;
half) printf '{"status": '; kill -9 $$ ;;
die) kill -9 $$ ;;
login) echo "password refused" >&2; exit 77 ;;
fail) printf '%s\n' "$3" >&2; exit "$2" ;;
traceback)
    printf 'Traceback (most recent call last):\n  File "/srv/app/t.py", line 9, in <module>\nFileNotFoundError: notes.md\n' >&2
    exit 1 ;;
environment) env -0 ;;
folder) pwd ;;
input) cat ;;
ignore_input) echo done ;;
privileges) grep NoNewPrivs /proc/self/status ;;
limits) ulimit -c ;;
# Leaves its number and that of a child in a file, then both wait for ever, deaf to polite signals.
stall)
    trap '' TERM INT HUP
    sh -c 'trap "" TERM INT HUP; echo $$ >>"$1"; while :; do sleep 1000; done' sh "$2" &
    echo $$ >>"$2"
    while :; do wait; done ;;
# Ends at once, while a child goes on holding both pipes.
leave)
    sh -c 'echo $$ >>"$1"; while :; do sleep 1000; done' sh "$2" &
    while ! [ -s "$2" ]; do :; done
    echo left ;;
# The same, and the child has moved to a session of its own, where no kill of the group finds it.
escape)
    setsid sh -c 'echo $$ >>"$1"; exec sleep 1000' sh "$2" &
    while ! [ -s "$2" ]; do :; done
    echo left ;;
# More than a pipe holds, on both pipes by turns, before it reads any input.
both)
    i=0
    while [ $i -lt 40 ]; do
        head -c 10000 /dev/zero | tr '\0' e >&2
        head -c 10000 /dev/zero | tr '\0' o
        i=$((i + 1))
    done
    cat >/dev/null ;;
esac
