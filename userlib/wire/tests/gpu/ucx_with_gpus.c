/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A UCX that reaches GPU memory, for machines without GPUs: the real one, which is told that memory is the host's. An address of this
 * "GPU memory" cannot be accessed; its bytes lie APART behind it, as memory.rs maps them, and only here anyone knows that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
#include <ucp/api/ucp.h>
#pragma GCC diagnostic pop

#define APART (64u << 20)

static const void *bytes_of(const void *memory, ucp_request_param_t *param)
{
	if (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE && param->memory_type == UCS_MEMORY_TYPE_CUDA) {
		param->memory_type = UCS_MEMORY_TYPE_HOST;
		return (const char *)memory + APART;
	}
	return memory;
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned id, const void *header, size_t header_len, const void *buffer,
				 size_t len, const ucp_request_param_t *param)
{
	__typeof__(ucp_am_send_nbx) *real = dlsym(RTLD_NEXT, "ucp_am_send_nbx");
	ucp_request_param_t own = *param;

	return real(ep, id, header, header_len, bytes_of(buffer, &own), len, &own);
}

ucs_status_ptr_t ucp_am_recv_data_nbx(ucp_worker_h worker, void *data, void *buffer, size_t len,
				      const ucp_request_param_t *param)
{
	__typeof__(ucp_am_recv_data_nbx) *real = dlsym(RTLD_NEXT, "ucp_am_recv_data_nbx");
	ucp_request_param_t own = *param;

	return real(worker, data, (void *)bytes_of(buffer, &own), len, &own);
}

ucs_status_t ucp_context_query(ucp_context_h context, ucp_context_attr_t *attr)
{
	__typeof__(ucp_context_query) *real = dlsym(RTLD_NEXT, "ucp_context_query");
	ucs_status_t status = real(context, attr);

	if (attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)
		attr->memory_types |= UCS_BIT(UCS_MEMORY_TYPE_CUDA);
	return status;
}
