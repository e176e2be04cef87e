#!/bin/sh
# A site's network file brings the cards of two machines into their network, as a management program does (spec 8.2).
#: guests 2
#: modules extoll
#: programs ggas hw-suite
#: memory 1024
#: kernels 6.12
#: seconds 120
set -e
insmod /extoll.ko
export GGAS_RUNTIME_DIR=/tmp/ggas

says() {
	wanted=$1
	shift
	"$@" >/tmp/said 2>&1 || {
		cat /tmp/said
		exit 1
	}
	grep -q -e "$wanted" /tmp/said || {
		cat /tmp/said
		echo "does not say: $wanted"
		exit 1
	}
}

refused() {
	wanted=$1
	shift
	if "$@" >/tmp/said 2>&1 || ! grep -q -e "$wanted" /tmp/said; then
		cat /tmp/said
		echo "is not refused with: $wanted"
		exit 1
	fi
}

cat >/tmp/network.toml <<EOF
torus = [2, 1, 1]
[entries]
host = 0
links = [4, 5, 6, 7, 8, 9]
discard = 10
EOF
sed 's/2, 1, 1/4, 1, 1/' /tmp/network.toml >/tmp/other.toml
card="ggas card --via hw --node $vm_node"
says "lp0 to node $vm_peer" ggas card plan /tmp/network.toml --node "$vm_node"

# No port before the network is up, and nothing is written by looking.
says "network state 0" $card down
refused "network state" hw-suite
says "network state is 0, would become 1" $card apply /tmp/network.toml --dry-run
says "^network state *0 (unconfigured)" $card show
refused "network state is 0" $card verify /tmp/network.toml

says "registers written and read back; network state 1" $card apply /tmp/network.toml
says "the card is as the file says" $card verify /tmp/network.toml
says "nothing to do" $card apply /tmp/network.toml
says "^network state *1 (configured)" $card show
# The sysfs tree tells the same.
test "$(cat /sys/class/extoll/extoll0/network_state)" = 1
# A file of other cables is not this network.
refused "is not as the file says" $card verify /tmp/other.toml
refused "use --node\|no node\|its ids are" ggas card --via hw --node 7 apply /tmp/network.toml

# Traffic goes both ways by what was written.
hw-suite "$vm_peer"
rmmod extoll
echo "bring_up: ok"
