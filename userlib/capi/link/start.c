/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs when librma2 is loaded, before what uses it: in the shared library, and in programs that hold all of it. */
void ggas_watch_start(void);

__attribute__((constructor)) static void start(void)
{
	ggas_watch_start();
}
