#!/bin/bash
# A requestor in a shell: takes nodes out of service, runs a command for each, with its name in NODE, and returns them to service. It requests all of
# them at once; the budgets of the cluster decide how many it gets at a time. After a crash, start it again with the same arguments.
#
#   requestor.sh CLUSTER CAMPAIGN NODE... -- COMMAND [ARGUMENT...]
#   requestor.sh spoke-1 bios-2-1 $(kubectl --context spoke-1 get nodes -l topology.kubernetes.io/zone=a -o name) -- ./update-bios.sh
set -uo pipefail

if [[ $# -lt 5 || " $* " != *" -- "* ]]; then
  echo "usage: $0 CLUSTER CAMPAIGN NODE... -- COMMAND [ARGUMENT...]" >&2
  exit 2
fi
export DRYDOCK_CLUSTER=$1 CAMPAIGN=$2
shift 2
nodes=()
while [[ $1 != -- ]]; do
  nodes+=("${1#node/}")
  shift
done
shift

service() {
  local node=$1 name=$CAMPAIGN-$1
  shift
  # Continue a maintenance from an earlier run.
  case $(drydock node status "$name" -o yaml 2>/dev/null | sed -n 's/^  state: //p') in
    Completed) return 0 ;;
    RequestorFailed) drydock node recover "$name" --reason "another attempt" ;;
    '' | Failed | Cancelled | NodeGone) drydock node maintain "$node" --name "$name" --requestor firmware.example.com --drain-timeout 30m ;;
  esac || return 1
  drydock node status "$name" --watch --for Ready || return 1
  if ! NODE=$node "$@"; then
    drydock node fail "$name" --reason "the command failed" # the node stays out of service: run this again, or cancel it
    return 1
  fi
  drydock node done "$name" && drydock node status "$name" --watch
}

pids=() failed=0
for node in "${nodes[@]}"; do
  service "$node" "$@" &
  pids+=($!)
done
for pid in "${pids[@]}"; do
  wait "$pid" || failed=1
done
exit $failed
