/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Register file of Tourmalet: byte offsets in BAR 0, 64-bit accesses only
 * (spec 1.2, 8). An array's element i lies at NAME + i * NAME_STRIDE.
 */
#ifndef EXTOLL_REGS_H
#define EXTOLL_REGS_H

#include "base.h"

/* PCI identity (spec 1.1). */
#define EXTOLL_PCI_VENDOR			0x1cad
#define EXTOLL_PCI_TOURMALET_1			0x0010
#define EXTOLL_PCI_TOURMALET			0x0011
#define EXTOLL_PCI_REVISION			0x40	/* 0x42 is refused */

/* BAR 0 (spec 1.2); BAR 2 is the SMFU window (smfu.h). */
#define EXTOLL_BAR0_RF				0x0
#define EXTOLL_BAR0_VELO			0x2000000
#define EXTOLL_BAR0_RMA				0x4000000
#define EXTOLL_BAR0_PART_BYTES			0x2000000
#define EXTOLL_BAR0_BYTES			0x6000000

/* VPIDs and nodes (spec 9.2). */
#define EXTOLL_VPIDS				256
#define EXTOLL_NODES				65536
#define EXTOLL_VPID_LAST_USER			250
#define EXTOLL_VPID_RRA				252
#define EXTOLL_VPID_SOCKETS			253
#define EXTOLL_VPID_EXN				254
#define EXTOLL_VPID_MANAGEMENT			255

/* info (spec 8.2). */
#define EXTOLL_RF_INFO_DRIVER			0x8000	/* R: [31:0] version */
#define EXTOLL_RF_INFO_NODE			0x8008
#define EXTOLL_RF_INFO_MANAGEMENT		0x8010
#define EXTOLL_RF_INFO_IP_ADDRESS		0x8018	/* two */
#define EXTOLL_RF_INFO_IP_ADDRESS_STRIDE	8
#define EXTOLL_RF_INFO_TSC			0x8028	/* 48 bit */
#define EXTOLL_RF_INFO_TSC_LOAD			0x8030
#define EXTOLL_RF_INFO_SCRATCHPAD		0x8038
#define EXTOLL_RF_INFO_SCRATCHPAD_STRIDE	8
#define EXTOLL_RF_INFO_SCRATCHPADS		8
#define EXTOLL_RF_INFO_NETWORK_STATE		0x8050	/* scratchpad 3 */
#define EXTOLL_RF_INFO_TSC_ENABLE		0x8078
#define EXTOLL_RF_INFO_TIMER			0x8080

#define EXTOLL_INFO_GUID_SHIFT			0
#define EXTOLL_INFO_GUID_BITS			24
#define EXTOLL_INFO_NODE_SHIFT			24
#define EXTOLL_INFO_NODE_BITS			16
#define EXTOLL_INFO_VPIDS_SHIFT			40
#define EXTOLL_INFO_VPIDS_BITS			16

/* The timer triggers system notification 7 each period, or once. */
#define EXTOLL_TIMER_PERIOD_SHIFT		0
#define EXTOLL_TIMER_PERIOD_BITS		48
#define EXTOLL_TIMER_ENABLE_SHIFT		48
#define EXTOLL_TIMER_ENABLE_BITS		1
#define EXTOLL_TIMER_ONE_SHOT_SHIFT		49
#define EXTOLL_TIMER_ONE_SHOT_BITS		1

#define EXTOLL_NETWORK_UNCONFIGURED		0
#define EXTOLL_NETWORK_CONFIGURED		1
#define EXTOLL_NETWORK_STOPPED			2

/* HTAX bridge: which bus addresses go to which unit (spec 1.2, 8.2). */
#define EXTOLL_RF_HTAX_UPPER			0x9200
#define EXTOLL_RF_HTAX_LOWER			0x9208
#define EXTOLL_RF_HTAX_CONTROL			0x9210
#define EXTOLL_RF_HTAX_STRIDE			0x18
#define EXTOLL_RF_HTAX_INTERVALS		6
#define EXTOLL_RF_HTAX_GENERAL			0x9290

/* Network ports: n0 VELO, n1 RMA completer, n2 RMA responder [inferred], n3 SMFU (spec 8.2). */
#define EXTOLL_RF_NP_TX_COUNT			0x9400	/* [63:32] sent, [31:0] received */
#define EXTOLL_RF_NP_RX_COUNT			0x9408
#define EXTOLL_RF_NP_GENERAL			0x9418
#define EXTOLL_RF_NP_STRIDE			0x80
#define EXTOLL_RF_NP_PORTS			4

/* SMFU (spec 6.1). */
#define EXTOLL_RF_SMFU_STATUS_CONTROL		0xa000
#define EXTOLL_RF_SMFU_TRAFFIC_CLASS		0xa008
#define EXTOLL_RF_SMFU_TIMEOUT_CONTROL		0xa010
#define EXTOLL_RF_SMFU_SENT_NP			0xa020
#define EXTOLL_RF_SMFU_SENT_P			0xa028
#define EXTOLL_RF_SMFU_SENT_RSP			0xa030
#define EXTOLL_RF_SMFU_RCVD_NP			0xa038
#define EXTOLL_RF_SMFU_RCVD_P			0xa040
#define EXTOLL_RF_SMFU_RCVD_RSP			0xa048
#define EXTOLL_RF_SMFU_O_START_ADDR		0xa058	/* bus address of the local window */
#define EXTOLL_RF_SMFU_T_START_ADDR		0xa060	/* target memory base, default */
#define EXTOLL_RF_SMFU_N_NODE_OFFSET		0xa068	/* 16 bit */
#define EXTOLL_RF_SMFU_ADDR_MASK		0xa070	/* [47:6] */
#define EXTOLL_RF_SMFU_INTERVAL_CONTROL		0xa080
#define EXTOLL_RF_SMFU_INTERVAL_START		0xa088	/* [47:12] */
#define EXTOLL_RF_SMFU_INTERVAL_END		0xa090	/* [47:12], inclusive */
#define EXTOLL_RF_SMFU_INTERVAL_COUNT		0xa098
#define EXTOLL_RF_SMFU_INTERVAL_STRIDE		0x20
#define EXTOLL_RF_SMFU_VPID_T_START_ADDR	0xa880	/* [47:12] */
#define EXTOLL_RF_SMFU_VPID_T_START_ADDR_STRIDE	8

/* ATU (spec 4.1). */
#define EXTOLL_RF_ATU_ENABLE			0xc000	/* [0] */
#define EXTOLL_RF_ATU_COMMAND			0xc008	/* write only */
#define EXTOLL_RF_ATU_COUNTERS			0xc010	/* to 0xc038: translations, preloads, flushes, notifications (spec 4.2) */
#define EXTOLL_RF_ATU_COUNTERS_LAST		0xc038
#define EXTOLL_RF_ATU_EXCELLERATE_PORT		0xc050	/* [0] active, [4:1] port (spec 4.2) */
#define EXTOLL_RF_ATU_EXCELLERATE_ADDRESS	0xc058
#define EXTOLL_RF_ATU_PRELOAD			0xd000
#define EXTOLL_RF_ATU_PRELOAD_STRIDE		16
#define EXTOLL_RF_ATU_GAT			0xe000
#define EXTOLL_RF_ATU_GAT_STRIDE		8

/* SNQ: system notifications (spec 8.4). */
#define EXTOLL_RF_SNQ_TRIGGER_ENABLE		0x10000
#define EXTOLL_RF_SNQ_TRIGGER_NOW		0x10008
#define EXTOLL_RF_SNQ_TRIGGER_ONCE_ENABLE	0x10010
#define EXTOLL_RF_SNQ_TRIGGER_ONCE		0x10018
#define EXTOLL_RF_SNQ_BASE			0x10020	/* address >> 10 */
#define EXTOLL_RF_SNQ_MASK			0x10028	/* entries - 1 */
#define EXTOLL_RF_SNQ_WP			0x10030
#define EXTOLL_RF_SNQ_RP			0x10038
#define EXTOLL_RF_SNQ_WATERMARK			0x10040
#define EXTOLL_RF_SNQ_IRQ			0x10048
#define EXTOLL_RF_SNQ_IRQ_STRIDE		8
#define EXTOLL_RF_SNQ_EXECUTE			0x10068
#define EXTOLL_RF_SNQ_HTAX			0x10070
#define EXTOLL_RF_SNQ_PROGRAM			0x10800
#define EXTOLL_RF_SNQ_PROGRAM_STRIDE		8

/* Crossbar (spec 8.2). */
#define EXTOLL_RF_XBAR_INPORT			0x400000
#define EXTOLL_RF_XBAR_INPORT_STRIDE		0x4000
#define EXTOLL_RF_XBAR_INPORTS			11
#define EXTOLL_RF_XBAR_MULTICAST		0x200	/* in the inport: 64 entries */
#define EXTOLL_RF_XBAR_GLOBAL			0x400	/* in the inport: 64 entries */
#define EXTOLL_RF_XBAR_LOCAL			0x2000	/* in the inport: 1024 entries; node id = 6 + 10 bits [inferred] */
#define EXTOLL_RF_XBAR_OUTPORT_COUNT		0x42c000
#define EXTOLL_RF_XBAR_OUTPORT_GENERAL		0x42c010	/* [7:0] credits */
#define EXTOLL_RF_XBAR_OUTPORT_STRIDE		0x40
#define EXTOLL_RF_XBAR_DISCARD_PORT		10

/* Link ports lp0 to lp6 (spec 8.1, 8.2). */
#define EXTOLL_RF_LINK_STATUS			0x460008
#define EXTOLL_RF_LINK_IDS			0x460018
#define EXTOLL_RF_LINK_STRIDE			0x80
#define EXTOLL_RF_LINKS				7

#define EXTOLL_LINK_ENABLE_SHIFT		0
#define EXTOLL_LINK_ENABLE_BITS			1
#define EXTOLL_LINK_READY_SHIFT			1
#define EXTOLL_LINK_READY_BITS			1
#define EXTOLL_LINK_RETRANSMIT_SHIFT		2
#define EXTOLL_LINK_RETRANSMIT_BITS		4
#define EXTOLL_LINK_INIT_SHIFT			6
#define EXTOLL_LINK_INIT_BITS			1
#define EXTOLL_LINK_ERRORS_SHIFT		7
#define EXTOLL_LINK_ERRORS_BITS			5
#define EXTOLL_LINK_REMOTE_GUID_SHIFT		2
#define EXTOLL_LINK_REMOTE_GUID_BITS		24
#define EXTOLL_LINK_REMOTE_NODE_SHIFT		26
#define EXTOLL_LINK_REMOTE_NODE_BITS		16

/* Buffer queues of the RMA unit; element: VPID (spec 3.2; fields in bq.h). */
#define EXTOLL_RF_BQ_RMA_GENERAL		0xe00000
#define EXTOLL_RF_BQ_RMA_UB			0xe00800
#define EXTOLL_RF_BQ_RMA_DCQ			0xe01000
#define EXTOLL_RF_BQ_RMA_CURRENT		0xe01800
#define EXTOLL_RF_BQ_RMA_NEXT			0xe02000
#define EXTOLL_RF_BQ_RMA_WP			0xe02800
#define EXTOLL_RF_BQ_STRIDE			8
#define EXTOLL_RF_BQ_RMA_RP			0xf00000
#define EXTOLL_RF_BQ_RP_STRIDE			0x1000

/* Buffer queues of the VELO unit; the same layout (spec 3.2). */
#define EXTOLL_RF_BQ_VELO_GENERAL		0xc00000
#define EXTOLL_RF_BQ_VELO_UB			0xc00800
#define EXTOLL_RF_BQ_VELO_DCQ			0xc01000
#define EXTOLL_RF_BQ_VELO_CURRENT		0xc01800
#define EXTOLL_RF_BQ_VELO_NEXT			0xc02000
#define EXTOLL_RF_BQ_VELO_WP			0xc02800
#define EXTOLL_RF_BQ_VELO_RP			0xd00000

/* VELO; element: VPID (spec 7, 8.1; fields in velo.h and wcb.h). */
#define EXTOLL_RF_VELO_WCB_STATE		0x1000000
#define EXTOLL_RF_VELO_WCB_STATE_STRIDE		0x1000
#define EXTOLL_RF_VELO_WCB_TIMEOUT		0x1100000
#define EXTOLL_RF_VELO_WCB_ERRORS		0x1100008	/* [inferred: as RMA's] */
#define EXTOLL_RF_VELO_WCB_ERRORS_2		0x1100010	/* [inferred: as RMA's] */
#define EXTOLL_RF_VELO_TX			0x1200800	/* node_vpid_prot_desc */
#define EXTOLL_RF_VELO_RX			0x1201000	/* comp_prot_desc */
#define EXTOLL_RF_VELO_DESC_STRIDE		8
#define EXTOLL_RF_VELO_TIMEOUT			0x1201800
#define EXTOLL_RF_VELO_COMPLETER		0x1201808
#define EXTOLL_RF_VELO_COUNT			0x1201810	/* [63:32] sent, [31:0] received [inferred halves] */
#define EXTOLL_RF_VELO_DROPS			0x1201818	/* [63:32] mailbox disabled, [31:0] wrong descriptor [inferred halves] */

/* RMA requester's write-combining buffers; element: VPID (spec 2.4, 8.3; fields in wcb.h). */
#define EXTOLL_RF_RMA_WCB_STATE			0x1400000
#define EXTOLL_RF_RMA_WCB_STATE_STRIDE		0x1000
#define EXTOLL_RF_RMA_WCB_TIMEOUT		0x1500000	/* [63:32] value, [0] active */
#define EXTOLL_RF_RMA_WCB_ERRORS		0x1500008
#define EXTOLL_RF_RMA_WCB_ERRORS_2		0x1500010

#define EXTOLL_WCB_TIMEOUT_VALUE_SHIFT		32
#define EXTOLL_WCB_TIMEOUT_VALUE_BITS		32
#define EXTOLL_WCB_TIMEOUT_ACTIVE_SHIFT		0
#define EXTOLL_WCB_TIMEOUT_ACTIVE_BITS		1
#define EXTOLL_WCB_TIMEOUT_DEFAULT		0x20	/* written by the driver */

/* RMA (spec 8.3). */
#define EXTOLL_RF_RMA_INT_VEC			0x1600020	/* 64 VPIDs each */
#define EXTOLL_RF_RMA_INT_RETRIG_VEC		0x1600040
#define EXTOLL_RF_RMA_INT_VEC_STRIDE		8
#define EXTOLL_RF_RMA_INT_VECS			4
#define EXTOLL_RF_RMA_CONFIG			0x1600080
#define EXTOLL_RF_RMA_LOCK_BASE			0x1600088	/* [63:12] (spec 5) */
#define EXTOLL_RF_RMA_LOCK_CONFIG		0x1600090
#define EXTOLL_RF_RMA_BQ_TIMEOUT		0x1600098	/* [31:0] value; [32] enable, as VELO's has it [inferred] */
#define EXTOLL_RF_RMA_VPID_TABLE		0x1600800
#define EXTOLL_RF_RMA_VPID_TABLE_STRIDE		8

#define EXTOLL_RMA_CONFIG_MTU_SHIFT		0
#define EXTOLL_RMA_CONFIG_MTU_BITS		10
#define EXTOLL_RMA_CONFIG_WRITE_SHIFT		16	/* bytes of PCIe payload / 64: 1, 2, 4 or 8 */
#define EXTOLL_RMA_CONFIG_WRITE_BITS		4
#define EXTOLL_RMA_CONFIG_READ_SHIFT		20	/* the same for read requests */
#define EXTOLL_RMA_CONFIG_READ_BITS		4
#define EXTOLL_RMA_CONFIG_FORCE_ERRORS_SHIFT	32	/* error notifications unasked */
#define EXTOLL_RMA_CONFIG_FORCE_ERRORS_BITS	1
#define EXTOLL_RMA_CONFIG_REPD_SHIFT		33
#define EXTOLL_RMA_CONFIG_REPD_BITS		1

/* Locks (spec 5): 32 bits each; lock i of VPID v is word v + VPIDs * i [inferred order]. */
#define EXTOLL_LOCK_COUNT_SHIFT			0	/* locks of each VPID */
#define EXTOLL_LOCK_COUNT_BITS			25
#define EXTOLL_LOCK_VPIDS_SHIFT			31
#define EXTOLL_LOCK_VPIDS_BITS			10
#define EXTOLL_LOCK_TAG_SHIFT			47
#define EXTOLL_LOCK_TAG_BITS			8
#define EXTOLL_LOCK_TPH_SHIFT			55
#define EXTOLL_LOCK_TPH_BITS			2
#define EXTOLL_LOCK_TH_SHIFT			57
#define EXTOLL_LOCK_TH_BITS			1
#define EXTOLL_LOCK_BYTES			4
#define EXTOLL_LOCKS_PER_VPID			16	/* configured by the driver */

/* bq_timeout: then a notification is dropped (spec 3.2 [inferred]). */
#define EXTOLL_BQ_TIMEOUT_DEFAULT		0xa	/* written by the driver */

/* vpid_table (spec 8.3). */
#define EXTOLL_VPID_ENABLE_SHIFT		0
#define EXTOLL_VPID_ENABLE_BITS			1
#define EXTOLL_VPID_COMPLETER_SHIFT		1	/* unit number; driver: 1 */
#define EXTOLL_VPID_COMPLETER_BITS		3
#define EXTOLL_VPID_RESPONDER_SHIFT		4	/* unit number; driver: 2 */
#define EXTOLL_VPID_RESPONDER_BITS		3
#define EXTOLL_VPID_EXCELL_SHIFT		7	/* ERA and EWA allowed */
#define EXTOLL_VPID_EXCELL_BITS			1
#define EXTOLL_VPID_TCS_SHIFT			8	/* tc0 to tc3, two bits each; driver: 1, 1, 3, 3 */
#define EXTOLL_VPID_TCS_BITS			8
#define EXTOLL_VPID_PROTECTION_SHIFT		16
#define EXTOLL_VPID_PROTECTION_BITS		16
#define EXTOLL_VPID_TAG_SHIFT			32
#define EXTOLL_VPID_TAG_BITS			8
#define EXTOLL_VPID_TPH_SHIFT			40
#define EXTOLL_VPID_TPH_BITS			2
#define EXTOLL_VPID_TH_SHIFT			42
#define EXTOLL_VPID_TH_BITS			1

#define EXTOLL_VPID_COMPLETER_DEFAULT		1
#define EXTOLL_VPID_RESPONDER_DEFAULT		2
#define EXTOLL_VPID_TCS_DEFAULT			0xf5	/* 1 | 1 << 2 | 3 << 4 | 3 << 6 */

/* Error control (spec 8.3). */
#define EXTOLL_RF_RMA_REQ_ERROR_CONTROL		0x1601000
#define EXTOLL_RF_RMA_REQ_HISTORY		0x1601008
#define EXTOLL_RF_RMA_RESP_ERROR_CONTROL	0x1601028
#define EXTOLL_RF_RMA_RESP_HISTORY		0x1601030
#define EXTOLL_RF_RMA_COMPL_ERROR_CONTROL	0x1601058
#define EXTOLL_RF_RMA_COMPL_HISTORY		0x1601060

#define EXTOLL_ERROR_HISTORY_MODE_SHIFT		0
#define EXTOLL_ERROR_HISTORY_MODE_BITS		1
#define EXTOLL_ERROR_CLEAR_HISTORY_SHIFT	1
#define EXTOLL_ERROR_CLEAR_HISTORY_BITS		1
#define EXTOLL_ERROR_CLEAR_COUNTS_SHIFT		2
#define EXTOLL_ERROR_CLEAR_COUNTS_BITS		1
#define EXTOLL_ERROR_TRIGGER_SHIFT		24
#define EXTOLL_ERROR_TRIGGER_BITS		1

/* Error counters: four to a register, 15 bits each, its overflow bit above (spec 8.3). */
#define EXTOLL_ERROR_COUNT_BITS			15
#define EXTOLL_ERROR_COUNT_STRIDE		16
#define EXTOLL_RF_RMA_REQ_ERRORS		0x1601018	/* exlreg, cmdt, exldis, trans */
#define EXTOLL_RF_RMA_REQ_ERRORS_2		0x1601020	/* bqt */
#define EXTOLL_RF_RMA_RESP_ERRORS		0x1601040	/* exlreg, cmdt, errcmd, vpid */
#define EXTOLL_RF_RMA_RESP_ERRORS_2		0x1601048	/* pdid, exldis, lock, trans */
#define EXTOLL_RF_RMA_RESP_ERRORS_3		0x1601050	/* bqt */
#define EXTOLL_RF_RMA_COMPL_ERRORS		0x1601070	/* exlreg, cmdt, nosop, hdrshrt */
#define EXTOLL_RF_RMA_COMPL_ERRORS_2		0x1601078	/* nodat, fewdat, moredat, errcmd */
#define EXTOLL_RF_RMA_COMPL_ERRORS_3		0x1601080	/* vpid, pdid, exldis, trans */
#define EXTOLL_RF_RMA_COMPL_ERRORS_4		0x1601088	/* bqt */

/* Place of a counter in its register. */
#define EXTOLL_REQ_EXLREG_SHIFT			0
#define EXTOLL_REQ_CMDT_SHIFT			16
#define EXTOLL_REQ_EXLDIS_SHIFT			32
#define EXTOLL_REQ_TRANS_SHIFT			48
#define EXTOLL_REQ_BQT_SHIFT			0	/* in REQ_ERRORS_2 */
#define EXTOLL_RESP_EXLREG_SHIFT		0
#define EXTOLL_RESP_CMDT_SHIFT			16
#define EXTOLL_RESP_ERRCMD_SHIFT		32
#define EXTOLL_RESP_VPID_SHIFT			48
#define EXTOLL_RESP_PDID_SHIFT			0	/* in RESP_ERRORS_2 */
#define EXTOLL_RESP_EXLDIS_SHIFT		16
#define EXTOLL_RESP_LOCK_SHIFT			32
#define EXTOLL_RESP_TRANS_SHIFT			48
#define EXTOLL_RESP_BQT_SHIFT			0	/* in RESP_ERRORS_3 */
#define EXTOLL_COMPL_EXLREG_SHIFT		0
#define EXTOLL_COMPL_CMDT_SHIFT			16
#define EXTOLL_COMPL_NOSOP_SHIFT		32
#define EXTOLL_COMPL_HDRSHRT_SHIFT		48
#define EXTOLL_COMPL_NODAT_SHIFT		0	/* in COMPL_ERRORS_2 */
#define EXTOLL_COMPL_FEWDAT_SHIFT		16
#define EXTOLL_COMPL_MOREDAT_SHIFT		32
#define EXTOLL_COMPL_ERRCMD_SHIFT		48
#define EXTOLL_COMPL_VPID_SHIFT			0	/* in COMPL_ERRORS_3 */
#define EXTOLL_COMPL_PDID_SHIFT			16
#define EXTOLL_COMPL_EXLDIS_SHIFT		32
#define EXTOLL_COMPL_TRANS_SHIFT		48
#define EXTOLL_COMPL_BQT_SHIFT			0	/* in COMPL_ERRORS_4 */

/* Performance counters, two of 32 bits to a register: first name in [63:32] (spec 8.3). */
#define EXTOLL_RF_RMA_PERF_CONTROL		0x1601200	/* write only */
#define EXTOLL_RF_RMA_PERF_REQ_PUTS		0x1601208	/* byte, quadword */
#define EXTOLL_RF_RMA_PERF_REQ_NOTI_IMM		0x1601210	/* notification puts, immediate puts */
#define EXTOLL_RF_RMA_PERF_REQ_GETS		0x1601218	/* byte, quadword */
#define EXTOLL_RF_RMA_PERF_REQ_LOCKS		0x1601220
#define EXTOLL_RF_RMA_PERF_REQ_ATU		0x1601228	/* to 0x1601238 */
#define EXTOLL_RF_RMA_PERF_REQ_READ		0x1601240	/* to 0x1601258 */
#define EXTOLL_RF_RMA_PERF_REQ_OUTPUT		0x1601260	/* to 0x1601290 */
#define EXTOLL_RF_RMA_PERF_REQ_NOTI		0x1601298	/* [63:32] interrupts, [31:0] sent */
#define EXTOLL_RF_RMA_PERF_RESP			0x16012a0
#define EXTOLL_RF_RMA_PERF_RESP_LAST		0x1601310
#define EXTOLL_RF_RMA_PERF_COMPL		0x1601318
#define EXTOLL_RF_RMA_PERF_COMPL_LAST		0x1601368

/* Register arrays must not run into what follows. */
EXTOLL_ASSERT(EXTOLL_RF_INFO_SCRATCHPAD + 3 * EXTOLL_RF_INFO_SCRATCHPAD_STRIDE ==
	      EXTOLL_RF_INFO_NETWORK_STATE, "network state is scratchpad 3");
EXTOLL_ASSERT(EXTOLL_RF_SMFU_INTERVAL_CONTROL + 64 * EXTOLL_RF_SMFU_INTERVAL_STRIDE ==
	      EXTOLL_RF_SMFU_VPID_T_START_ADDR, "64 intervals");
EXTOLL_ASSERT(EXTOLL_RF_ATU_GAT + 1024 * EXTOLL_RF_ATU_GAT_STRIDE == EXTOLL_RF_SNQ_TRIGGER_ENABLE,
	      "1024 tables");
EXTOLL_ASSERT(EXTOLL_RF_BQ_RMA_UB + EXTOLL_VPIDS * EXTOLL_RF_BQ_STRIDE == EXTOLL_RF_BQ_RMA_DCQ,
	      "a queue for each VPID");
EXTOLL_ASSERT(EXTOLL_RF_BQ_VELO_UB + EXTOLL_VPIDS * EXTOLL_RF_BQ_STRIDE == EXTOLL_RF_BQ_VELO_DCQ,
	      "a queue for each VPID");
EXTOLL_ASSERT(EXTOLL_RF_VELO_RX + EXTOLL_VPIDS * EXTOLL_RF_VELO_DESC_STRIDE == EXTOLL_RF_VELO_TIMEOUT,
	      "a descriptor for each VPID");
EXTOLL_ASSERT(EXTOLL_RF_VELO_WCB_STATE + EXTOLL_VPIDS * EXTOLL_RF_VELO_WCB_STATE_STRIDE ==
	      EXTOLL_RF_VELO_WCB_TIMEOUT, "a state page for each VPID");
EXTOLL_ASSERT(EXTOLL_RF_RMA_VPID_TABLE + EXTOLL_VPIDS * EXTOLL_RF_RMA_VPID_TABLE_STRIDE ==
	      EXTOLL_RF_RMA_REQ_ERROR_CONTROL, "an entry for each VPID");
EXTOLL_ASSERT(EXTOLL_RF_RMA_WCB_STATE + EXTOLL_VPIDS * EXTOLL_RF_RMA_WCB_STATE_STRIDE ==
	      EXTOLL_RF_RMA_WCB_TIMEOUT, "a state page for each VPID");
EXTOLL_ASSERT(EXTOLL_BAR0_RMA + ((uint64_t)32 << 20) == EXTOLL_BAR0_BYTES, "32 options");

/* Register of element `index`. */
EXTOLL_FN uint64_t extoll_rf(uint64_t base, uint64_t stride, uint32_t index)
{
	return base + stride * index;
}

/* Driver's vpid_table value of an open port (spec 8.3). */
EXTOLL_FN uint64_t extoll_vpid_entry(uint32_t protection)
{
	return EXTOLL_PUT(1, EXTOLL_VPID_ENABLE) |
	       EXTOLL_PUT(EXTOLL_VPID_COMPLETER_DEFAULT, EXTOLL_VPID_COMPLETER) |
	       EXTOLL_PUT(EXTOLL_VPID_RESPONDER_DEFAULT, EXTOLL_VPID_RESPONDER) |
	       EXTOLL_PUT(EXTOLL_VPID_TCS_DEFAULT, EXTOLL_VPID_TCS) |
	       EXTOLL_PUT(protection, EXTOLL_VPID_PROTECTION);
}

/* Lock configuration (spec 5): locks of each VPID, number of VPIDs. */
EXTOLL_FN uint64_t extoll_lock_config(uint32_t locks, uint32_t vpids)
{
	return EXTOLL_PUT(locks, EXTOLL_LOCK_COUNT) | EXTOLL_PUT(vpids, EXTOLL_LOCK_VPIDS);
}

#endif /* EXTOLL_REGS_H */
