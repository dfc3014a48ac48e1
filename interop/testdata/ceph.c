// Has the monitor of a Ceph cluster do commands, as Ceph's own program "ceph"
// does, which needs Python: command CONFIGURATION JSON... It prints the answers
// and stops at the first error. librados.h is not needed: these are its
// functions of version 16.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef void *rados_t;
int rados_create(rados_t *cluster, const char *id);
int rados_conf_read_file(rados_t cluster, const char *path);
int rados_connect(rados_t cluster);
int rados_mon_command(rados_t cluster, const char **commands, size_t n, const char *in, size_t in_length,
		      char **out, size_t *out_length, char **status, size_t *status_length);
void rados_shutdown(rados_t cluster);

static int fail(const char *what, int error)
{
	fprintf(stderr, "%s: %s\n", what, strerror(-error));
	return 1;
}

int main(int argc, char **argv)
{
	rados_t cluster;
	int error = argc < 2 ? -22 : rados_create(&cluster, NULL);
	if (error < 0)
		return fail("rados_create", error);
	if ((error = rados_conf_read_file(cluster, argv[1])) < 0)
		return fail(argv[1], error);
	if ((error = rados_connect(cluster)) < 0)
		return fail("rados_connect", error);
	for (int i = 2; i < argc; i++) {
		const char *commands[] = {argv[i]};
		char *out = NULL, *status = NULL;
		size_t out_length = 0, status_length = 0;
		error = rados_mon_command(cluster, commands, 1, "", 0, &out, &out_length, &status, &status_length);
		printf("%.*s%.*s\n", (int)out_length, out ? out : "", (int)status_length, status ? status : "");
		if (error < 0)
			return fail(argv[i], error);
	}
	rados_shutdown(cluster);
	return 0;
}
