#!/bin/sh
# Two hosts of one machine, as far as MPI can tell: network namespaces with a cable between them, each with a name and a /dev/shm of its
# own. $HOSTS is what their names begin with.
#
#     hosts.sh up | down
#     hosts.sh ADDRESS COMMAND...     the command there, as rsh does it; addresses are 10.77.0.1 and 10.77.0.2
set -eu
case $1 in
  up)
    for host in 1 2; do
      ip netns add "$HOSTS$host"
      ip -n "$HOSTS$host" link set lo up
    done
    ip link add cable netns "${HOSTS}1" type veth peer name cable netns "${HOSTS}2"
    for host in 1 2; do
      ip -n "$HOSTS$host" address add "10.77.0.$host/24" dev cable
      ip -n "$HOSTS$host" link set cable up
    done
    # It takes a moment until it carries anything.
    for host in 1 2; do
      tries=0
      while [ "$tries" -lt 50 ] && ! ip -n "$HOSTS$host" link show cable | grep -q 'state UP'; do
        tries=$((tries + 1))
        sleep 0.1
      done
    done
    ;;
  down)
    for host in 1 2; do ip netns del "$HOSTS$host" || true; done
    ;;
  10.77.0.*)
    host=${1#10.77.0.}
    shift
    # shellcheck disable=SC2016 # what is quoted is for the shell in there
    exec ip netns exec "$HOSTS$host" unshare --uts --ipc --mount sh -c \
      'hostname "$0" && mount -t tmpfs shm /dev/shm && exec sh -c "$*"' "host$host" "$@"
    ;;
  *)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2
    exit 2
    ;;
esac
