// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What a job needs of PMIx, in flat calls: who am I, and one value of rank 0 for all. The library's functions are looked up
 * when it is opened, so that a program that was built with its headers also starts where it is missing. Calls give 0, or
 * PMIx's status.
 */
#include <dlfcn.h>
#include <pmix.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct {
	pmix_status_t (*init)(pmix_proc_t *own, pmix_info_t info[], size_t infos);
	pmix_status_t (*finalize)(const pmix_info_t info[], size_t infos);
	pmix_status_t (*put)(pmix_scope_t scope, const char key[], pmix_value_t *value);
	pmix_status_t (*commit)(void);
	pmix_status_t (*fence)(const pmix_proc_t ranks[], size_t count, const pmix_info_t info[], size_t infos);
	pmix_status_t (*get)(const pmix_proc_t *rank, const char key[], const pmix_info_t info[], size_t infos,
			     pmix_value_t **value);
} pmix;

static pmix_proc_t own;

const char *ggas_pmix_load(const char *path)
{
	const struct {
		void *to;
		const char *name;
	} symbols[] = {
		{ &pmix.init, "PMIx_Init" },	 { &pmix.finalize, "PMIx_Finalize" }, { &pmix.put, "PMIx_Put" },
		{ &pmix.commit, "PMIx_Commit" }, { &pmix.fence, "PMIx_Fence" },	      { &pmix.get, "PMIx_Get" },
	};
	static char missing[80];
	void *library = dlopen(path ? path : "libpmix.so.2", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return dlerror();
	for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
		/* POSIX wants a pointer to a function read through a pointer to an object. */
		void **to = symbols[i].to;

		*to = dlsym(library, symbols[i].name);
		if (!*to) {
			snprintf(missing, sizeof(missing), "it has no function %s", symbols[i].name);
			return missing;
		}
	}
	return NULL;
}

static pmix_proc_t rank_of_job(uint32_t rank)
{
	pmix_proc_t process;

	memset(&process, 0, sizeof(process));
	memcpy(process.nspace, own.nspace, sizeof(process.nspace));
	process.rank = rank;
	return process;
}

int ggas_pmix_init(uint32_t *rank, uint32_t *size, char *name, size_t name_size)
{
	pmix_value_t *value = NULL;
	pmix_proc_t all;
	int status = pmix.init(&own, NULL, 0);

	if (status)
		return status;
	all = rank_of_job(PMIX_RANK_WILDCARD);
	status = pmix.get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
	if (status)
		return status;
	if (value->type != PMIX_UINT32)
		return PMIX_ERR_TYPE_MISMATCH;
	*rank = own.rank;
	*size = value->data.uint32;
	snprintf(name, name_size, "%s", own.nspace);
	return 0;
}

int ggas_pmix_put(const char *key, const void *bytes, size_t len)
{
	pmix_value_t value;
	int status;

	memset(&value, 0, sizeof(value));
	value.type = PMIX_BYTE_OBJECT;
	/* It copies them. */
	value.data.bo.bytes = (char *)(uintptr_t)bytes;
	value.data.bo.size = len;
	status = pmix.put(PMIX_GLOBAL, key, &value);
	return status ? status : pmix.commit();
}

/* Returns when all ranks have called it: what was put before can be got then. */
int ggas_pmix_fence(void)
{
	pmix_proc_t all = rank_of_job(PMIX_RANK_WILDCARD);
	pmix_info_t collect;

	memset(&collect, 0, sizeof(collect));
	snprintf(collect.key, sizeof(collect.key), "%s", PMIX_COLLECT_DATA);
	collect.value.type = PMIX_BOOL;
	collect.value.data.flag = true;
	return pmix.fence(&all, 1, &collect, 1);
}

/* At most so many bytes; *len: how many there are. */
int ggas_pmix_get(uint32_t rank, const char *key, void *bytes, size_t size, size_t *len)
{
	pmix_proc_t process = rank_of_job(rank);
	pmix_value_t *value = NULL;
	int status = pmix.get(&process, key, NULL, 0, &value);

	if (status)
		return status;
	if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size > size)
		return PMIX_ERR_TYPE_MISMATCH;
	*len = value->data.bo.size;
	memcpy(bytes, value->data.bo.bytes, *len);
	return 0;
}

int ggas_pmix_finalize(void)
{
	return pmix.finalize(NULL, 0);
}
