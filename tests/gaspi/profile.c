/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A tool's own gaspi_barrier, which counts and calls pgaspi_barrier; and the library's counters.
 */
#include "common.h"
#include "PGASPI.h"

static int barriers;

gaspi_return_t gaspi_barrier(gaspi_group_t group, gaspi_timeout_t timeout_ms)
{
	barriers++;
	return pgaspi_barrier(group, timeout_ms);
}

int main(void)
{
	gaspi_statistic_argument_t argument = GASPI_STATISTIC_ARGUMENT_RANK;
	gaspi_string_t name = NULL, text = NULL;
	gaspi_number_t level = 0, count = 0;
	unsigned long value = 9;
	float number = 0;

	begin();
	OK(gaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	OK(pgaspi_barrier(GASPI_GROUP_ALL, MINUTE));
	CHECK(barriers == 1);
	OK(gaspi_statistic_counter_max(&count));
	CHECK(count == 19);
	OK(gaspi_statistic_counter_info(2, &argument, &name, &text, &level));
	CHECK(!strcmp(name, "NumberOfBarriers") && argument == GASPI_STATISTIC_ARGUMENT_NONE && level == 1 && text);
	OK(gaspi_statistic_counter_get(2, 0, &value));
	CHECK(value == 2);
	OK(gaspi_statistic_counter_get_f(2, 0, &number));
	CHECK(number == 2);
	GIVES(GASPI_ERROR, gaspi_statistic_counter_get_f(19, 0, &number));
	OK(gaspi_statistic_print_counters());
	CHECK(gaspi_notifications_space_size() == 65536 * 8);
	OK(gaspi_statistic_counter_reset(2));
	OK(gaspi_statistic_counter_get(2, 0, &value));
	CHECK(value == 0);
	GIVES(GASPI_ERROR, gaspi_statistic_counter_get(19, 0, &value));
	gaspi_printf("rank %d is done\n", 3);
	end();
	CHECK(barriers == 2);
	return 0;
}
