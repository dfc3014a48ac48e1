// A client that loads an NFSv3 server over TCP, with libnfs:
//
//     client ADDRESS NFS-PORT MOUNT-PORT PATH LOAD SIZE DEPTH COUNT
//
// LOAD read and write move COUNT items of SIZE bytes from or to the file "data", DEPTH at a
// time: reads of less than 1 MiB at random places, the rest in order. A write ends with a
// COMMIT. LOAD create, stat and unlink work on COUNT names, one after the other. What a load
// needs is made before, and removed after. It prints operations per second.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <nfsc/libnfs.h>

static struct nfs_context *nfs;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, nfs ? nfs_get_error(nfs) : strerror(errno));
	exit(1);
}

// must ends the program if a call of libnfs returned an error.
static void must(const char *what, int result)
{
	if (result < 0)
		fail(what);
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static uint64_t next_random(void)
{
	static uint64_t x = 88172645463325252; // the same places in each run (xorshift64)
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

// A load that moves data.
static struct nfsfh *file;
static uint64_t blocks;      // of the file
static uint64_t size;        // of a block
static uint64_t count;       // of operations
static uint64_t begun, done; // of these
static int writing;
static char *data;

static void ended(int status, struct nfs_context *context, void *unused, void *private_data);

// begin starts the next operation.
static void begin(void)
{
	uint64_t block = begun++;
	if (size < 1 << 20)
		block = next_random();
	block = block % blocks * size;
	if (writing)
		must("nfs_pwrite_async", nfs_pwrite_async(nfs, file, block, size, data, ended, NULL));
	else
		must("nfs_pread_async", nfs_pread_async(nfs, file, block, size, ended, NULL));
}

static void ended(int status, struct nfs_context *context, void *unused, void *private_data)
{
	(void)context, (void)unused, (void)private_data;
	if (status != (int)size) {
		fprintf(stderr, "%s of %" PRIu64 " bytes: %d\n", writing ? "write" : "read", size, status);
		fail("libnfs");
	}
	done++;
	if (begun < count)
		begin();
}

static double move(uint64_t depth)
{
	struct nfs_stat_64 st;
	must("stat of data", nfs_stat64(nfs, "data", &st));
	must("open of data", nfs_open(nfs, "data", O_RDWR, &file));
	if ((blocks = st.nfs_size / size) == 0 || (data = calloc(1, size)) == NULL)
		fail("data is too small");
	double start = now();
	while (begun < depth && begun < count)
		begin();
	while (done < count) {
		struct pollfd p = {.fd = nfs_get_fd(nfs), .events = nfs_which_events(nfs)};
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			fail("poll");
		must("nfs_service", nfs_service(nfs, p.revents));
	}
	if (writing)
		must("nfs_fsync", nfs_fsync(nfs, file));
	double took = now() - start;
	must("nfs_close", nfs_close(nfs, file));
	return took;
}

// each calls one function of libnfs for all names and returns how long that took.
static double each(char function)
{
	double start = now();
	for (uint64_t i = 0; i < count; i++) {
		char name[32];
		struct nfs_stat_64 st;
		snprintf(name, sizeof name, "/name.%" PRIu64, i);
		switch (function) {
		case 'c':
			must("nfs_creat", nfs_creat(nfs, name, 0644, &file));
			must("nfs_close", nfs_close(nfs, file));
			break;
		case 's':
			must("nfs_stat64", nfs_stat64(nfs, name, &st));
			break;
		case 'u':
			must("nfs_unlink", nfs_unlink(nfs, name));
		}
	}
	return now() - start;
}

// names creates, looks at and removes files, and returns how long one of the three took.
static double names(char function)
{
	double create = each('c'), stat = function == 's' ? each('s') : 0, unlink = each('u');
	return function == 'c' ? create : function == 's' ? stat : unlink;
}

int main(int argc, char **argv)
{
	if (argc != 9) {
		fprintf(stderr, "usage: %s ADDRESS NFS-PORT MOUNT-PORT PATH LOAD SIZE DEPTH COUNT\n", argv[0]);
		return 2;
	}
	const char *load = argv[5];
	size = strtoull(argv[6], NULL, 10);
	count = strtoull(argv[8], NULL, 10);
	writing = strcmp(load, "write") == 0;
	char url[512];
	snprintf(url, sizeof url, "nfs://%s%s?version=3&nfsport=%s&mountport=%s&auto-traverse-mounts=0&dircache=0",
		 argv[1], argv[4], argv[2], argv[3]);
	if ((nfs = nfs_init_context()) == NULL)
		fail("nfs_init_context");
	struct nfs_url *u = nfs_parse_url_dir(nfs, url);
	if (u == NULL)
		fail(url);
	must(url, nfs_mount(nfs, u->server, u->path));
	nfs_destroy_url(u);
	if (size > nfs_get_readmax(nfs) || size > nfs_get_writemax(nfs)) {
		fprintf(stderr, "the server allows READs of %" PRIu64 " and WRITEs of %" PRIu64 " bytes\n",
			nfs_get_readmax(nfs), nfs_get_writemax(nfs));
		return 1;
	}
	double took;
	if (writing || strcmp(load, "read") == 0)
		took = move(strtoull(argv[7], NULL, 10));
	else
		took = names(load[0]);
	printf("%.1f\n", count / took);
	nfs_destroy_context(nfs);
	return 0;
}
