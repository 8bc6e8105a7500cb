// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Preloaded into mke2fs so that the same tree gives the same file system.
 *
 * `mke2fs -d` takes directory entries in the order of the host's file system, copies the change
 * time of the host's inodes, and stamps what it makes with the time of day. Here entries come
 * sorted, all three times of a file are its modification time, no later than SOURCE_DATE_EPOCH,
 * and it is SOURCE_DATE_EPOCH all the time. e2fsprogs 1.47.1 does part of this by itself.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { DEPTH_MAX = 128 };

static struct listing {
	DIR *dir;
	struct dirent **entries;
	size_t count, next;
} listings[DEPTH_MAX];

static time_t epoch(void)
{
	const char *text = getenv("SOURCE_DATE_EPOCH");

	return text ? strtoll(text, NULL, 10) : 0;
}

static void settle(struct stat *st)
{
	if (st->st_mtime > epoch())
		st->st_mtime = epoch();
	st->st_mtim.tv_nsec = 0;
	st->st_atim = st->st_ctim = st->st_mtim;
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct dirent *const *)a)->d_name, (*(struct dirent *const *)b)->d_name);
}

static void list(struct listing *l, DIR *dir)
{
	struct dirent *(*next)(DIR *) = dlsym(RTLD_NEXT, "readdir64");
	struct dirent *entry;

	*l = (struct listing){.dir = dir};
	while ((entry = next(dir))) {
		l->entries = reallocarray(l->entries, l->count + 1, sizeof(*l->entries));
		if (!l->entries || !(l->entries[l->count] = malloc(entry->d_reclen)))
			abort();
		memcpy(l->entries[l->count++], entry, entry->d_reclen);
	}
	if (l->count)
		qsort(l->entries, l->count, sizeof(*l->entries), by_name);
}

static struct listing *find(DIR *dir)
{
	for (size_t i = 0; i < DEPTH_MAX; i++)
		if (listings[i].dir == dir)
			return &listings[i];
	return NULL;
}

struct dirent *readdir(DIR *dir)
{
	struct listing *l = find(dir);

	if (!l) {
		l = find(NULL);
		if (!l)
			abort();
		list(l, dir);
	}
	return l->next < l->count ? l->entries[l->next++] : NULL;
}

struct dirent64 *readdir64(DIR *dir)
{
	return (struct dirent64 *)readdir(dir);
}

int closedir(DIR *dir)
{
	int (*next)(DIR *) = dlsym(RTLD_NEXT, "closedir");
	struct listing *l = find(dir);

	if (l) {
		for (size_t i = 0; i < l->count; i++)
			free(l->entries[i]);
		free(l->entries);
		*l = (struct listing){0};
	}
	return next(dir);
}

int lstat64(const char *path, struct stat64 *st)
{
	int (*next)(const char *, struct stat64 *) = dlsym(RTLD_NEXT, "lstat64");
	int result = next(path, st);

	if (!result)
		settle((struct stat *)st);
	return result;
}

int stat(const char *path, struct stat *st)
{
	int (*next)(const char *, struct stat *) = dlsym(RTLD_NEXT, "stat");
	int result = next(path, st);

	if (!result)
		settle(st);
	return result;
}

int stat64(const char *path, struct stat64 *st)
{
	int (*next)(const char *, struct stat64 *) = dlsym(RTLD_NEXT, "stat64");
	int result = next(path, st);

	if (!result)
		settle((struct stat *)st);
	return result;
}

time_t time(time_t *now)
{
	if (now)
		*now = epoch();
	return epoch();
}
