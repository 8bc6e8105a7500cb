/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a kernel module says about itself in its .modinfo section. */
#include "lib/catalog/modinfo.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "lib/catalog/catalog.h"

static bool within(uint64_t at, uint64_t length, size_t n)
{
	return at <= n && length <= n - at;
}

/* Section header number `index`, copied since the file need not be aligned. */
static bool section(const uint8_t *elf, size_t n, const Elf64_Ehdr *head, uint16_t index, Elf64_Shdr *out)
{
	uint64_t at;

	if (index >= head->e_shnum || head->e_shentsize != sizeof(*out) ||
	    __builtin_add_overflow(head->e_shoff, (uint64_t)index * sizeof(*out), &at) ||
	    !within(at, sizeof(*out), n))
		return false;
	memcpy(out, elf + at, sizeof(*out));
	return out->sh_type == SHT_NOBITS || within(out->sh_offset, out->sh_size, n);
}

static const char *find_modinfo(const uint8_t *elf, size_t n, size_t *length)
{
	static const char wanted[] = ".modinfo";
	Elf64_Ehdr head;
	Elf64_Shdr names, one;

	if (n < sizeof(head))
		return NULL;
	memcpy(&head, elf, sizeof(head));
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_ident[EI_DATA] != ELFDATA2LSB || !section(elf, n, &head, head.e_shstrndx, &names) ||
	    names.sh_type != SHT_STRTAB)
		return NULL;
	for (uint16_t i = 0; i < head.e_shnum; i++) {
		if (!section(elf, n, &head, i, &one))
			return NULL;
		if (one.sh_type != SHT_NOBITS && within(one.sh_name, sizeof(wanted), names.sh_size) &&
		    !memcmp(elf + names.sh_offset + one.sh_name, wanted, sizeof(wanted))) {
			*length = one.sh_size;
			return (const char *)elf + one.sh_offset;
		}
	}
	return NULL;
}

int modinfo_get(const void *elf, size_t n, const char *key, char *out, size_t room, struct err *err)
{
	size_t left, key_length = strlen(key);
	const char *at = find_modinfo(elf, n, &left);

	if (!at)
		return err_set(err, "malformed: not a kernel module");
	while (left) {
		size_t length = strnlen(at, left);

		if (length > key_length && !memcmp(at, key, key_length) && at[key_length] == '=') {
			size_t value = length - key_length - 1;

			if (value >= room)
				return err_set(err, "malformed: %s of the module is too long", key);
			memcpy(out, at + key_length + 1, value);
			out[value] = '\0';
			return 0;
		}
		if (length == left)
			break;
		at += length + 1;
		left -= length + 1;
	}
	return 1;
}

int modinfo_check(const void *elf, size_t n, const char *release, struct err *err)
{
	char value[256];
	int found = modinfo_get(elf, n, "vermagic", value, sizeof(value), err);
	size_t length = strlen(release);

	if (found < 0)
		return -1;
	if (found || strncmp(value, release, length) || value[length] != ' ')
		return err_set(err, "wrong_release: the module is for %.64s", found ? "no kernel" : value);
	found = modinfo_get(elf, n, "testable", value, sizeof(value), err);
	if (found < 0)
		return -1;
	return found ? 0 : err_set(err, "test_build: the module has test-only switches");
}
