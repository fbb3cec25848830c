#!/usr/bin/env bash
# Times the steps of dgc() with and without perHost, on two hosts with several ranks each (docs/algorithms.md). The hosts
# are network namespaces. Use it as root, on a machine with no other work, after `npm run build`.
#   scripts/per-host/measure.sh 4 2mbit     # ranks of each host, rate of the link between the hosts
set -euo pipefail
ranks=$1 rate=$2
rank=$(dirname "$(realpath "$0")")/rank.js
hosts=(gradring-a gradring-b)
remove() { for host in "${hosts[@]}"; do ip netns del "$host" 2> /dev/null || true; done; }
trap remove EXIT

for host in "${hosts[@]}"; do ip netns add "$host"; done
ip link add eth0 netns "${hosts[0]}" type veth peer name eth0 netns "${hosts[1]}"
for i in 0 1; do
  ip -n "${hosts[$i]}" addr add "10.77.10.$((i + 1))/24" dev eth0
  for device in lo eth0; do ip -n "${hosts[$i]}" link set "$device" up; done
  ip netns exec "${hosts[$i]}" tc qdisc add dev eth0 root tbf rate "$rate" burst 32kb latency 400ms
done
export WORLD_SIZE=$((2 * ranks)) MASTER_ADDR=10.77.10.1 MASTER_PORT=29500 GRADRING_ENCRYPTION=off
for i in 0 1; do
  # One shell for a host: each `ip netns exec` has a file system of its own, and so would be another host.
  ip netns exec "${hosts[$i]}" bash -c "for r in {$((i * ranks))..$(((i + 1) * ranks - 1))}; do RANK=\$r node '$rank' & done; wait" &
done
wait
