/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An SQLite VFS whose disk is honest only about what was synced: writes and truncations of the database and of its log
 * stay in this process until xSync, so a kill loses them all. It can also be told to fail writes.
 */
#ifndef TESTS_LOSSY_VFS_H
#define TESTS_LOSSY_VFS_H

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

static int lossy_fail; /* an SQLite result that every write and sync gives, 0: none */

struct lossy_write {
	struct lossy_write *next;
	sqlite3_int64 at;
	int n;
	unsigned char bytes[];
};

struct lossy_file {
	sqlite3_file base;
	int kept; /* database or log */
	unsigned char *mem;
	sqlite3_int64 size, room;
	struct lossy_write *first, *last;
	int truncated;
	sqlite3_int64 smallest; /* size that the file was cut to meanwhile */
	sqlite3_file *real;	/* behind this struct */
};

static sqlite3_vfs *lossy_below;

static int lossy_grow(struct lossy_file *f, sqlite3_int64 size)
{
	if (size > f->room) {
		sqlite3_int64 room = f->room ? f->room : 65536;
		unsigned char *more;

		while (room < size)
			room *= 2;
		more = realloc(f->mem, (size_t)room);
		if (!more)
			return SQLITE_NOMEM;
		memset(more + f->room, 0, (size_t)(room - f->room));
		f->mem = more;
		f->room = room;
	}
	if (size > f->size)
		f->size = size;
	return SQLITE_OK;
}

static int lossy_close(sqlite3_file *file)
{
	struct lossy_file *f = (struct lossy_file *)file;

	for (struct lossy_write *w = f->first, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	free(f->mem);
	return f->real->pMethods->xClose(f->real);
}

static int lossy_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
	struct lossy_file *f = (struct lossy_file *)file;
	sqlite3_int64 have;

	if (!f->kept)
		return f->real->pMethods->xRead(f->real, out, n, at);
	have = at >= f->size ? 0 : f->size - at < n ? f->size - at : n;
	if (have)
		memcpy(out, f->mem + at, (size_t)have);
	if (have == n)
		return SQLITE_OK;
	memset((char *)out + have, 0, (size_t)(n - have));
	return SQLITE_IOERR_SHORT_READ;
}

static int lossy_write_(sqlite3_file *file, const void *p, int n, sqlite3_int64 at)
{
	struct lossy_file *f = (struct lossy_file *)file;
	struct lossy_write *w;

	if (lossy_fail)
		return lossy_fail;
	if (!f->kept)
		return f->real->pMethods->xWrite(f->real, p, n, at);
	w = malloc(sizeof(*w) + (size_t)n);
	if (!w || lossy_grow(f, at + n)) {
		free(w);
		return SQLITE_NOMEM;
	}
	memcpy(f->mem + at, p, (size_t)n);
	w->next = NULL;
	w->at = at;
	w->n = n;
	memcpy(w->bytes, p, (size_t)n);
	if (f->last)
		f->last->next = w;
	else
		f->first = w;
	f->last = w;
	return SQLITE_OK;
}

static int lossy_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	struct lossy_file *f = (struct lossy_file *)file;

	if (!f->kept)
		return f->real->pMethods->xTruncate(f->real, size);
	if (size < f->size) {
		memset(f->mem + size, 0, (size_t)(f->size - size));
		f->size = size;
	}
	if (!f->truncated || size < f->smallest)
		f->smallest = size;
	f->truncated = 1;
	return SQLITE_OK;
}

static int lossy_sync(sqlite3_file *file, int flags)
{
	struct lossy_file *f = (struct lossy_file *)file;
	int rc = SQLITE_OK;

	if (lossy_fail)
		return lossy_fail;
	if (f->truncated)
		rc = f->real->pMethods->xTruncate(f->real, f->smallest);
	for (struct lossy_write *w = f->first, *next; w; w = next) {
		next = w->next;
		if (!rc)
			rc = f->real->pMethods->xWrite(f->real, w->bytes, w->n, w->at);
		free(w);
	}
	f->first = f->last = NULL;
	if (!rc && f->truncated)
		rc = f->real->pMethods->xTruncate(f->real, f->size);
	f->truncated = 0;
	return rc ? rc : f->real->pMethods->xSync(f->real, flags);
}

static int lossy_size(sqlite3_file *file, sqlite3_int64 *size)
{
	struct lossy_file *f = (struct lossy_file *)file;

	if (!f->kept)
		return f->real->pMethods->xFileSize(f->real, size);
	*size = f->size;
	return SQLITE_OK;
}

#define REAL(file) (((struct lossy_file *)(file))->real)
static int lossy_lock(sqlite3_file *f, int how)
{
	return REAL(f)->pMethods->xLock(REAL(f), how);
}
static int lossy_unlock(sqlite3_file *f, int how)
{
	return REAL(f)->pMethods->xUnlock(REAL(f), how);
}
static int lossy_reserved(sqlite3_file *f, int *out)
{
	return REAL(f)->pMethods->xCheckReservedLock(REAL(f), out);
}
static int lossy_control(sqlite3_file *f, int op, void *arg)
{
	if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE || op == SQLITE_FCNTL_MMAP_SIZE)
		return SQLITE_NOTFOUND;
	return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}
static int lossy_sector(sqlite3_file *f)
{
	return REAL(f)->pMethods->xSectorSize(REAL(f));
}
static int lossy_traits(sqlite3_file *f)
{
	(void)f;
	return 0; /* promises nothing: no safe append, no atomic write */
}
static int lossy_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
	return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, out);
}
static int lossy_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	return REAL(f)->pMethods->xShmLock(REAL(f), at, n, flags);
}
static void lossy_shm_barrier(sqlite3_file *f)
{
	REAL(f)->pMethods->xShmBarrier(REAL(f));
}
static int lossy_shm_unmap(sqlite3_file *f, int del)
{
	return REAL(f)->pMethods->xShmUnmap(REAL(f), del);
}

static const sqlite3_io_methods lossy_methods = {
	.iVersion = 2,
	.xClose = lossy_close,
	.xRead = lossy_read,
	.xWrite = lossy_write_,
	.xTruncate = lossy_truncate,
	.xSync = lossy_sync,
	.xFileSize = lossy_size,
	.xLock = lossy_lock,
	.xUnlock = lossy_unlock,
	.xCheckReservedLock = lossy_reserved,
	.xFileControl = lossy_control,
	.xSectorSize = lossy_sector,
	.xDeviceCharacteristics = lossy_traits,
	.xShmMap = lossy_shm_map,
	.xShmLock = lossy_shm_lock,
	.xShmBarrier = lossy_shm_barrier,
	.xShmUnmap = lossy_shm_unmap,
};

static int lossy_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
	struct lossy_file *f = (struct lossy_file *)file;
	sqlite3_int64 size = 0;
	int rc;

	(void)vfs;
	memset(f, 0, sizeof(*f));
	f->real = (sqlite3_file *)(f + 1);
	rc = lossy_below->xOpen(lossy_below, name, f->real, flags, out_flags);
	if (rc)
		return rc;
	f->base.pMethods = &lossy_methods;
	f->kept = (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
	if (!f->kept)
		return SQLITE_OK;
	f->real->pMethods->xFileSize(f->real, &size);
	if (size && (lossy_grow(f, size) || f->real->pMethods->xRead(f->real, f->mem, (int)size, 0)))
		return SQLITE_IOERR;
	return SQLITE_OK;
}

static int lossy_register(void)
{
	static sqlite3_vfs vfs;

	lossy_below = sqlite3_vfs_find(NULL);
	vfs = *lossy_below;
	vfs.zName = "lossy";
	vfs.pNext = NULL;
	vfs.szOsFile = (int)sizeof(struct lossy_file) + lossy_below->szOsFile;
	vfs.xOpen = lossy_open;
	return sqlite3_vfs_register(&vfs, 0);
}

#endif
