# What a guest that hangs does. CI shows the beginning: programs that wait in
# the kernel, and what they wait for. What may hang itself comes late, and all
# of it has a bound on the host. Sysrq prints to the console.
echo "--- $(uname -r), load $(cat /proc/loadavg), up $(cat /proc/uptime)"
echo "--- threads that can't be interrupted"
for dir in /proc/[0-9]*/task/[0-9]*; do
	case "$(cat $dir/stat)" in
	*") D "*) echo "$dir $(cat $dir/comm)"; cat $dir/stack ;;
	esac
done 2>/dev/null
echo "--- RPC tasks and transports"
for file in /sys/kernel/debug/sunrpc/rpc_clnt/*/tasks /sys/kernel/debug/sunrpc/rpc_xprt/*/info /proc/fs/nfsfs/servers; do
	[ ! -s "$file" ] && [ -z "$(cat $file 2>/dev/null)" ] || { echo "$file:"; cat $file; }
done 2>/dev/null
echo "--- processes"
ps -o pid,ppid,stat,args 2>/dev/null | grep -v '\[.*\]$'
# Kernel stacks of programs, and of the kernel's own threads unless they are idle.
for dir in /proc/[0-9]*; do
	{ read -r name <$dir/comm && stack=$(cat $dir/stack) && [ -n "$stack" ]; } 2>/dev/null || continue
	case "$stack" in
	*rescuer_thread*|*smpboot_thread_fn*|*kthreadd*) continue ;;
	*process_one_work*) ;; # a busy worker
	*worker_thread*) continue ;;
	esac
	echo "--- stack of ${dir#/proc/} $name: $(grep State $dir/status)"
	echo "$stack"
done 2>/dev/null
grep -E '^(MemFree|MemAvailable|Dirty|Writeback|SUnreclaim)' /proc/meminfo
echo "--- TCP"
timeout 5 ss -tanpo
pids=$(pidof rdmad) && kill -QUIT $pids && sleep 1
for log in /run/ganesha/log /tmp/log /tmp/*.log; do
	[ ! -s $log ] || { echo "--- end of $log"; tail -n 300 $log | tail -c 200000; }
done
echo "--- what blocks, by the kernel"
echo w >/proc/sysrq-trigger
echo l >/proc/sysrq-trigger
dmesg | tail -n 300
echo "--- RDMA"
timeout 5 rdma resource show qp
timeout 5 rdma resource show cm_id
echo "--- the end"
