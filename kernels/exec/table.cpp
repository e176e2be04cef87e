// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of host kernels that the executor searches by name.
#include "ggas/vocab.h"

#include "args.h"

__thread ggas_exec_thread *ggas_exec_self;

extern "C" {

void ggas_exec_enter(ggas_exec_thread *self) { ggas_exec_self = self; }

#define ENTRY(name, args_type) void ggas_host_##name(const void *);
#include "kernels.def"
#undef ENTRY

struct ggas_exec_kernel {
	const char *name;
	void (*run)(const void *args);
	uint64_t args_size;
};

#define ENTRY(name, args_type) { #name, ggas_host_##name, sizeof(args_type) },
extern const ggas_exec_kernel ggas_exec_kernels[] = {
#include "kernels.def"
};
#undef ENTRY
extern const uint64_t ggas_exec_kernel_count = sizeof(ggas_exec_kernels) / sizeof(ggas_exec_kernels[0]);

}
