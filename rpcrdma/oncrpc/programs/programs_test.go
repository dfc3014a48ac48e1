package programs

import "testing"

func TestFind(t *testing.T) {
	for i := range All {
		if got := Find(All[i].Program, All[i].Version); got != i {
			t.Errorf("%s version %d is at %d and at %d", All[i].Name, All[i].Version, got, i)
		}
		if All[i].Procedures[0] != "NULL" {
			t.Errorf("%s version %d begins with %s", All[i].Name, All[i].Version, All[i].Procedures[0])
		}
	}
	if i := Find(NFS, 5); i != -1 {
		t.Errorf("NFS version 5 is at %d", i)
	}
	if Name(Mount) != "MOUNT" || Name(1) != "" {
		t.Errorf("names %q and %q", Name(Mount), Name(1))
	}
	for proc, want := range map[int]string{0: "NULL", 6: "READ", 21: "COMMIT"} {
		if got := All[Find(NFS, 3)].Procedures[proc]; got != want {
			t.Errorf("NFS version 3 procedure %d is %s, want %s", proc, got, want)
		}
	}
}
