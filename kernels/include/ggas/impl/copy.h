/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Copies between parts of windows, by plain accesses; included by ggas.cuh. */
#ifndef GGAS_IMPL_COPY_H
#define GGAS_IMPL_COPY_H

namespace ggas_impl
{

/* How copies access memory: by plain C++, or where an end may be trapped by ggas_read() and ggas_write(). One decision for
 * a whole copy keeps its loops as they are. */
struct plain_access {
	template <class Unit> GGAS_FN static Unit read(const Unit *p) { return *p; }
	template <class Unit> GGAS_FN static void write(Unit *p, Unit v) { *p = v; }
};
struct window_access {
	template <class Unit> GGAS_FN static Unit read(const Unit *p) { return ggas_read(p); }
	template <class Unit> GGAS_FN static void write(Unit *p, Unit v) { ggas_write(p, v); }
};

/* Four units at a time, and those that are left, so that as many loads are under way before the first is stored. */
template <class Access, class Unit>
GGAS_FN void copy_units(Unit *out, const Unit *in, uint64_t count, uint64_t self, uint64_t all)
{
	uint64_t i = self;
	for (; i + 3 * all < count; i += 4 * all) {
		Unit a = Access::read(in + i), b = Access::read(in + i + all);
		Unit c = Access::read(in + i + 2 * all), d = Access::read(in + i + 3 * all);
		Access::write(out + i, a);
		Access::write(out + i + all, b);
		Access::write(out + i + 2 * all, c);
		Access::write(out + i + 3 * all, d);
	}
	bool one = i < count, two = i + all < count, three = i + 2 * all < count;
	Unit a{}, b{}, c{};
	if (one)
		a = Access::read(in + i);
	if (two)
		b = Access::read(in + i + all);
	if (three)
		c = Access::read(in + i + 2 * all);
	if (one)
		Access::write(out + i, a);
	if (two)
		Access::write(out + i + all, b);
	if (three)
		Access::write(out + i + 2 * all, c);
}

template <class Access>
GGAS_FN void copy_share_by(void *to, const void *from, uint64_t bytes, uint32_t self, uint32_t all)
{
	uint8_t *out = static_cast<uint8_t *>(to);
	const uint8_t *in = static_cast<const uint8_t *>(from);
	uint64_t ends = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from), done = 0;
	if (ends % 16 == 0 && bytes >= 16) {
		copy_units<Access>(reinterpret_cast<ggas_u128 *>(out), reinterpret_cast<const ggas_u128 *>(in),
				   bytes / 16, self, all);
		done = bytes & ~static_cast<uint64_t>(15);
	}
	if (ends % 8 == 0 && bytes - done >= 8) {
		copy_units<Access>(reinterpret_cast<uint64_t *>(out + done),
				   reinterpret_cast<const uint64_t *>(in + done), (bytes - done) / 8, self, all);
		done = bytes & ~static_cast<uint64_t>(7);
	}
	if (ends % 4 == 0 && bytes - done >= 4) {
		copy_units<Access>(reinterpret_cast<uint32_t *>(out + done),
				   reinterpret_cast<const uint32_t *>(in + done), (bytes - done) / 4, self, all);
		done = bytes & ~static_cast<uint64_t>(3);
	}
	for (uint64_t i = done + self; i < bytes; i += all)
		Access::write(out + i, Access::read(in + i));
}

#if defined(GGAS_EXECUTOR)
GGAS_FN void copy_trapped(void *to, const void *from, uint64_t bytes, uint32_t self, uint32_t all)
{
	copy_share_by<window_access>(to, from, bytes, self, all);
}
#endif

/* Thread `self` of `all` copies its share: consecutive threads touch consecutive
 * words, 16 bytes at a time where both ends allow it. */
GGAS_FN void copy_share(void *to, const void *from, uint64_t bytes, uint32_t self, uint32_t all)
{
	if constexpr (can_trap)
		if (may_trap(to) || may_trap(from))
			return copy_trapped(to, from, bytes, self, all);
	copy_share_by<plain_access>(to, from, bytes, self, all);
}

} /* namespace ggas_impl */

#endif /* GGAS_IMPL_COPY_H */
