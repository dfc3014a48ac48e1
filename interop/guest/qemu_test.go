package guest

import (
	"slices"
	"strings"
	"testing"
)

func TestMachineArgs(t *testing.T) {
	m := machine{
		options: Options{Forward: []int{20049, 4791}, Append: []string{"quiet"}, Capture: "/c.pcap",
			Disks:  []string{"/d", "nbd+unix:///?socket=/n"},
			Shares: []Share{{Tag: "src", Dir: "/s", At: "/src"}}}.withDefaults("/share"),
		accel: tcgAccel, kernel: "/k", initramfs: "/i", agentSock: "/a",
		forwards: map[int]int{20049: 30001, 4791: 30002},
	}
	args := m.args()
	pairs := [][2]string{
		{"-smp", "2"}, {"-m", "2048"}, {"-kernel", "/k"}, {"-initrd", "/i"},
		{"-netdev", "user,id=net0,hostfwd=tcp:127.0.0.1:30001-10.0.2.15:20049" +
			",hostfwd=tcp:127.0.0.1:30002-10.0.2.15:4791"},
		{"-object", "filter-dump,id=capture,netdev=net0,maxlen=65535,file=/c.pcap"},
		{"-drive", "if=none,id=disk0,format=raw,cache=writeback,file=/d"},
		{"-device", "virtio-blk-pci,drive=disk0"},
		{"-drive", "if=none,id=disk1,format=raw,cache=writeback,file=nbd+unix:///?socket=/n"},
		{"-virtfs", "local,path=/share,mount_tag=host,security_model=none,multidevs=remap"},
		{"-virtfs", "local,path=/s,mount_tag=src,security_model=none,multidevs=remap"},
	}
	for _, pair := range pairs {
		if !hasPair(args, pair) {
			t.Errorf("no %s %s in %q", pair[0], pair[1], args)
		}
	}
	for _, word := range []string{"oops=panic", "panic=-1", "rdmad.share=host:/host", "rdmad.share=src:/src", "quiet"} {
		if !slices.Contains(strings.Fields(m.cmdline()), word) {
			t.Errorf("no %s on the kernel's command line %q", word, m.cmdline())
		}
	}
	if strings.Contains(m.cmdline(), "rdmad.shell") {
		t.Error("a shell that nobody asked for")
	}
}

func hasPair(args []string, pair [2]string) bool {
	for i := 1; i < len(args); i++ {
		if args[i-1] == pair[0] && args[i] == pair[1] {
			return true
		}
	}
	return false
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts([]int{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		seen[p] = true
	}
	if len(seen) != 4 || seen[0] {
		t.Errorf("ports %v, want four that differ", ports)
	}
}
