package interop

import (
	"testing"
)

// testAttributes sets attributes and checks them on both sides, and checks
// access rights with ACCESS.
func testAttributes(t *testing.T, w *work) {
	w.client(t, `echo text >file; mkdir dir
chmod 0640 file; chmod 1755 dir
touch -d '2001-02-03 04:05:06' file
mkfifo fifo`)
	show := "TZ=UTC stat -c '%n %s %a %F %Y' file dir/. fifo | sed 's/ [0-9]*$//'; stat -c %Y file"
	want := "file 5 640 regular file\ndir/. 4096 1755 directory\nfifo 0 644 fifo\n981173106\n"
	strip := " | sed 's,dir/. [0-9]*,dir/. 4096,'" // a directory's size is the file system's affair
	same(t, "attributes on the server", w.serverSide(t, "("+show+")"+strip), want)
	w.refetch(t)
	same(t, "attributes fetched again", w.client(t, "("+show+")"+strip), want)

	same(t, "times and identity agree", w.client(t, "stat -c '%i %Y %h' file dir fifo"),
		w.serverSide(t, "stat -c '%i %Y %h' file dir fifo"))
	same(t, "file system", w.client(t, "stat -f -c '%S' . >/dev/null; df . | wc -l"), "2\n")
	w.client(t, "chmod 0400 file; ! su user -c 'cat file' 2>/dev/null; chmod 0444 file; su user -c 'cat file' >/dev/null")
}
