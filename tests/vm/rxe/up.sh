# An rxe device on the guest's Ethernet device, and addresses: the guest has 10.0.0.NODE+2.
for module in /modules/*; do
	insmod "$module"
done
ip addr add "10.0.0.$((vm_node + 2))/24" dev eth0
ip link set eth0 up
rdma link add rxe0 type rxe netdev eth0
for i in $(seq 100); do
	grep -qs ffff:0a00 /sys/class/infiniband/rxe0/ports/1/gids/* && break
	sleep 0.1
done
