/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a window does not have is refused and reported; included by ggas.cuh. Puts to a window that is not mapped go by
 * queues (queue.cuh), which reach it through the network device. */
#ifndef GGAS_IMPL_WINDOW_CHECK_H
#define GGAS_IMPL_WINDOW_CHECK_H

#include "window_trace.h"

namespace ggas_impl
{

/* Unless all that is wrong is that the window is traced. Takes values: a pointer to the window would keep it in memory. */
GGAS_COLD int report_refusal(uint64_t report, uint32_t self, uint32_t node, uint64_t offset, uint64_t bytes,
			     uint64_t size, uint32_t line)
{
	if (!size) {
		if (trace_access(report, self, node, offset, bytes, line >> line_bits))
			return GGAS_OK;
		size = traced_size(report);
	}
	write_report(reinterpret_cast<ggas_report *>(report), GGAS_ERR_ARGUMENT, GGAS_WAIT_FLAG, self, node,
		     line & line_mask, offset, size, bytes, 0);
	return GGAS_ERR_ARGUMENT;
}
GGAS_FN int refuse_put(const ggas_window *window, uint32_t node, uint64_t offset, uint64_t bytes, uint32_t line)
{
	return report_refusal(window->report, window->node, node, offset, bytes, window->size, line);
}

GGAS_FN bool inside(const ggas_window *window, uint64_t offset, uint64_t bytes)
{
	return offset <= window->size && bytes <= window->size - offset;
}

/* The same of `count` times `each` bytes, whatever their product; of windows that are traced, too. */
GGAS_FN bool holds(uint64_t size, uint64_t offset, uint64_t count, uint64_t each)
{
	return offset <= size && count <= (size - offset) / each;
}
GGAS_FN bool inside(uint64_t size, uint64_t report, uint64_t offset, uint64_t count, uint64_t each)
{
	return holds(size, offset, count, each) || (!size && holds(traced_size(report), offset, count, each));
}

/* The window is mapped and has the node and the range. `line`: of traced(), or what is traced is refused. */
GGAS_FN int check_put(const ggas_window *window, uint32_t node, uint64_t offset, uint64_t bytes, uint32_t line)
{
	bool reached = node < window->nodes && (ggas_mapped(window) || node == window->node);
	if (reached && inside(window, offset, bytes))
		return GGAS_OK;
	return refuse_put(window, node, offset, bytes, line);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_WINDOW_CHECK_H */
