//! The registers of the tree: names, places, fields.
//!
//! Which names the specification tells as a whole: `nw_lp_top_rf_lp<N>_status` (spec 9.5), `snq_rf_irq_0` to `_2` (the
//! module's parameters, spec 9.5) and `rma_rf_bq_timeout` (spec 3.2). They are built as `<unit>_rf_<register>`, and so
//! are the others here, whose last part alone it tells \[inferred\]. Names of fields are its words in lower case
//! \[inferred\], but for `ready`.
//!
//! Left out is what it describes without a name, and what reading changes or may change: interrupt vectors, histories of
//! errors, what is only written.

use extoll_abi::Field;
use extoll_abi::regs::*;
use extoll_abi::smfu::{ENABLE as SMFU_ENABLE, TIMEOUT as SMFU_TIMEOUT, TIMEOUT_ERROR as SMFU_TIMEOUT_ERROR};

use super::{Bits, Place, Register};

const PER_VPID: u64 = EXTOLL_VPIDS;
const SMFU_INTERVALS: u64 = EXTOLL_SMFU_INTERVALS;

const fn of(name: &'static str, field: Field) -> Bits {
    Bits { name, high: field.high(), low: field.low() }
}

const fn bits(name: &'static str, shift: u64, bits: u64) -> Bits {
    of(name, Field::new(shift, bits))
}

/// All 64 bits, where the specification tells no fields.
const VALUE: Bits = Bits { name: "value", high: 63, low: 0 };

const fn one(name: &'static str, offset: u64, fields: &'static [Bits]) -> Register {
    Register { name, offset, place: Place::Alone, fields }
}

const fn array(
    name: &'static str,
    offset: u64,
    stride: u64,
    count: u64,
    fields: &'static [Bits],
) -> Register {
    Register { name, offset, place: Place::Array { stride, count: count as usize }, fields }
}

const fn numbered(
    name: &'static str,
    offset: u64,
    stride: u64,
    count: u64,
    fields: &'static [Bits],
) -> Register {
    Register { name, offset, place: Place::Numbered { stride, count: count as usize }, fields }
}

/// A register of each queue of an RMA or VELO unit (spec 3.2).
const fn queue(name: &'static str, offset: u64, fields: &'static [Bits]) -> Register {
    array(name, offset, EXTOLL_RF_BQ_STRIDE, PER_VPID, fields)
}

const QUEUE_GENERAL: &[Bits] = &[
    of("enable", BQ_ENABLE),
    bits("ub_assertion", EXTOLL_BQ_ASSERT_UB_SHIFT, EXTOLL_BQ_ASSERT_UB_BITS),
    of("timeout_assertion", BQ_ASSERT_TIMEOUT),
    bits("lwp_assertion", EXTOLL_BQ_ASSERT_LWP_SHIFT, EXTOLL_BQ_ASSERT_LWP_BITS),
    of("failing_queue", BQ_FAILED_QUEUE),
    of("error_count", BQ_ERRORS),
];
const QUEUE_UB: &[Bits] = &[of("ub", BQ_UB)];
const QUEUE_TABLE: &[Bits] = &[
    bits("dcq_ub", EXTOLL_BQ_DCQ_UB_SHIFT, EXTOLL_BQ_DCQ_UB_BITS),
    bits("dcq_base", EXTOLL_BQ_DCQ_PAGE_SHIFT, EXTOLL_BQ_DCQ_PAGE_BITS),
];
const QUEUE_SEGMENT: &[Bits] = &[
    bits("slot_size", EXTOLL_BQ_SLOT_SIZE_SHIFT, EXTOLL_BQ_SLOT_SIZE_BITS),
    bits("slots", EXTOLL_BQ_SLOTS_SHIFT, EXTOLL_BQ_SLOTS_BITS),
    bits("base", EXTOLL_BQ_PAGE_SHIFT, EXTOLL_BQ_PAGE_BITS),
    bits("valid", EXTOLL_BQ_VALID_SHIFT, EXTOLL_BQ_VALID_BITS),
];
const QUEUE_WP: &[Bits] = &[
    bits("dcq_rp", EXTOLL_BQ_DCQ_RP_SHIFT, EXTOLL_BQ_DCQ_RP_BITS),
    bits("lwp", EXTOLL_BQ_LWP_SHIFT, EXTOLL_BQ_LWP_BITS),
];
const QUEUE_RP: &[Bits] = &[
    bits("rp", EXTOLL_BQ_RP_SHIFT, EXTOLL_BQ_RP_BITS),
    bits("rearm", EXTOLL_BQ_REARM_SHIFT, EXTOLL_BQ_REARM_BITS),
];

/// Every register of the tree, by its offset.
pub const REGISTERS: &[Register] = &[
    // Info (spec 8.2).
    one("info_rf_driver", EXTOLL_RF_INFO_DRIVER, &[bits("version", 0, 32)]),
    one(
        "info_rf_node",
        EXTOLL_RF_INFO_NODE,
        &[of("guid", INFO_GUID), of("node_id", INFO_NODE), of("vpids", INFO_VPIDS)],
    ),
    one("info_rf_tsc", EXTOLL_RF_INFO_TSC, &[bits("tsc", 0, 48)]),
    array(
        "info_rf_scratchpad",
        EXTOLL_RF_INFO_SCRATCHPAD,
        EXTOLL_RF_INFO_SCRATCHPAD_STRIDE,
        EXTOLL_RF_INFO_SCRATCHPADS,
        &[VALUE],
    ),
    // SMFU (spec 6.1).
    one(
        "smfu_rf_status_control",
        EXTOLL_RF_SMFU_STATUS_CONTROL,
        &[
            of("en", SMFU_ENABLE),
            bits("acr", EXTOLL_SMFU_ACR_SHIFT, EXTOLL_SMFU_ACR_BITS),
            bits("mse", EXTOLL_SMFU_MSE_SHIFT, EXTOLL_SMFU_MSE_BITS),
            bits("idl", EXTOLL_SMFU_IDLE_SHIFT, EXTOLL_SMFU_IDLE_BITS),
            bits("sec", EXTOLL_SMFU_SEC_SHIFT, EXTOLL_SMFU_SEC_BITS),
            bits("ded", EXTOLL_SMFU_DED_SHIFT, EXTOLL_SMFU_DED_BITS),
            bits("enable_p2np", EXTOLL_SMFU_P2NP_SHIFT, EXTOLL_SMFU_P2NP_BITS),
            bits("force_passPW", EXTOLL_SMFU_PASS_PW_SHIFT, EXTOLL_SMFU_PASS_PW_BITS),
        ],
    ),
    one(
        "smfu_rf_traffic_class",
        EXTOLL_RF_SMFU_TRAFFIC_CLASS,
        &[
            bits("np", EXTOLL_SMFU_TC_NP_SHIFT, EXTOLL_SMFU_TC_NP_BITS),
            bits("p", EXTOLL_SMFU_TC_P_SHIFT, EXTOLL_SMFU_TC_P_BITS),
            bits("response", EXTOLL_SMFU_TC_RSP_SHIFT, EXTOLL_SMFU_TC_RSP_BITS),
        ],
    ),
    one(
        "smfu_rf_timeout_control",
        EXTOLL_RF_SMFU_TIMEOUT_CONTROL,
        &[of("timeout", SMFU_TIMEOUT), of("error", SMFU_TIMEOUT_ERROR)],
    ),
    one("smfu_rf_oStartAddr", EXTOLL_RF_SMFU_O_START_ADDR, &[VALUE]),
    one("smfu_rf_tStartAddr_default", EXTOLL_RF_SMFU_T_START_ADDR, &[VALUE]),
    one("smfu_rf_nNodeOffset", EXTOLL_RF_SMFU_N_NODE_OFFSET, &[bits("nNodeOffset", 0, 16)]),
    one("smfu_rf_addr_mask", EXTOLL_RF_SMFU_ADDR_MASK, &[bits("addr_mask", 6, 42)]),
    array(
        "smfu_rf_vpid_tStartAddr",
        EXTOLL_RF_SMFU_VPID_T_START_ADDR,
        EXTOLL_RF_SMFU_VPID_T_START_ADDR_STRIDE,
        SMFU_INTERVALS,
        &[bits("vpid_tStartAddr", 12, 36)],
    ),
    // System notifications (spec 8.4).
    one("snq_rf_mask", EXTOLL_RF_SNQ_MASK, &[VALUE]),
    one("snq_rf_wp", EXTOLL_RF_SNQ_WP, &[VALUE]),
    one("snq_rf_rp", EXTOLL_RF_SNQ_RP, &[VALUE]),
    one("snq_rf_watermark", EXTOLL_RF_SNQ_WATERMARK, &[bits("watermark", 0, 16), bits("enable", 16, 1)]),
    numbered("snq_rf_irq_{}", EXTOLL_RF_SNQ_IRQ, EXTOLL_RF_SNQ_IRQ_STRIDE, 3, &[VALUE]),
    one("snq_rf_execute", EXTOLL_RF_SNQ_EXECUTE, &[VALUE]),
    one("snq_rf_htax", EXTOLL_RF_SNQ_HTAX, &[VALUE]),
    // Links (spec 8.2).
    numbered(
        "nw_lp_top_rf_lp{}_status",
        EXTOLL_RF_LINK_STATUS,
        EXTOLL_RF_LINK_STRIDE,
        EXTOLL_RF_LINKS,
        &[
            of("enable", LINK_ENABLE),
            of("ready", LINK_READY),
            of("retransmit", LINK_RETRANSMIT),
            bits("init", EXTOLL_LINK_INIT_SHIFT, EXTOLL_LINK_INIT_BITS),
            of("errors", LINK_ERRORS),
        ],
    ),
    // Buffer queues (spec 3.2).
    one("bq_velo_rf_general", EXTOLL_RF_BQ_VELO_GENERAL, QUEUE_GENERAL),
    queue("bq_velo_rf_ub", EXTOLL_RF_BQ_VELO_UB, QUEUE_UB),
    queue("bq_velo_rf_dcq_base_dcq_ub", EXTOLL_RF_BQ_VELO_DCQ, QUEUE_TABLE),
    queue("bq_velo_rf_c_base_size_valid", EXTOLL_RF_BQ_VELO_CURRENT, QUEUE_SEGMENT),
    queue("bq_velo_rf_n_base_size_valid", EXTOLL_RF_BQ_VELO_NEXT, QUEUE_SEGMENT),
    queue("bq_velo_rf_wp_lwp_dcq_rp", EXTOLL_RF_BQ_VELO_WP, QUEUE_WP),
    array("bq_velo_rf_rp", EXTOLL_RF_BQ_VELO_RP, EXTOLL_RF_BQ_RP_STRIDE, PER_VPID, QUEUE_RP),
    one("bq_rma_rf_general", EXTOLL_RF_BQ_RMA_GENERAL, QUEUE_GENERAL),
    queue("bq_rma_rf_ub", EXTOLL_RF_BQ_RMA_UB, QUEUE_UB),
    queue("bq_rma_rf_dcq_base_dcq_ub", EXTOLL_RF_BQ_RMA_DCQ, QUEUE_TABLE),
    queue("bq_rma_rf_c_base_size_valid", EXTOLL_RF_BQ_RMA_CURRENT, QUEUE_SEGMENT),
    queue("bq_rma_rf_n_base_size_valid", EXTOLL_RF_BQ_RMA_NEXT, QUEUE_SEGMENT),
    queue("bq_rma_rf_wp_lwp_dcq_rp", EXTOLL_RF_BQ_RMA_WP, QUEUE_WP),
    array("bq_rma_rf_rp", EXTOLL_RF_BQ_RMA_RP, EXTOLL_RF_BQ_RP_STRIDE, PER_VPID, QUEUE_RP),
    // VELO (spec 7).
    array(
        "velo_rf_node_vpid_prot_desc",
        EXTOLL_RF_VELO_TX,
        EXTOLL_RF_VELO_DESC_STRIDE,
        PER_VPID,
        &[of("tx_protection", VELO_TX_PROTECTION), of("node", VELO_TX_NODE), of("vpid", VELO_TX_VPID)],
    ),
    array(
        "velo_rf_comp_prot_desc",
        EXTOLL_RF_VELO_RX,
        EXTOLL_RF_VELO_DESC_STRIDE,
        PER_VPID,
        &[
            of("rx_protection", VELO_RX_PROTECTION),
            of("reroute", VELO_RX_REROUTE),
            of("mailbox_enable", VELO_RX_MAILBOX),
        ],
    ),
    one(
        "velo_rf_timeout",
        EXTOLL_RF_VELO_TIMEOUT,
        &[of("timeout", VELO_TIMEOUT), of("enable", VELO_TIMEOUT_ENABLE)],
    ),
    one(
        "velo_rf_completer",
        EXTOLL_RF_VELO_COMPLETER,
        &[of("reroute_port", VELO_COMPLETER_PORT), of("slots_128", VELO_COMPLETER_128)],
    ),
    // RMA (spec 5, 8.3).
    one(
        "rma_rf_config",
        EXTOLL_RF_RMA_CONFIG,
        &[
            of("mtu", CONFIG_MTU),
            bits("write_payload", EXTOLL_RMA_CONFIG_WRITE_SHIFT, EXTOLL_RMA_CONFIG_WRITE_BITS),
            bits("read_request", EXTOLL_RMA_CONFIG_READ_SHIFT, EXTOLL_RMA_CONFIG_READ_BITS),
            of("force_error_notifications", CONFIG_FORCE_ERRORS),
            bits("repd", EXTOLL_RMA_CONFIG_REPD_SHIFT, EXTOLL_RMA_CONFIG_REPD_BITS),
        ],
    ),
    one("rma_rf_lock_base", EXTOLL_RF_RMA_LOCK_BASE, &[bits("lock_base", 12, 52)]),
    one(
        "rma_rf_lock_cfg",
        EXTOLL_RF_RMA_LOCK_CONFIG,
        &[
            of("locks", LOCK_COUNT),
            of("vpids", LOCK_VPIDS),
            bits("steering_tag", EXTOLL_LOCK_TAG_SHIFT, EXTOLL_LOCK_TAG_BITS),
            bits("tph", EXTOLL_LOCK_TPH_SHIFT, EXTOLL_LOCK_TPH_BITS),
            bits("th", EXTOLL_LOCK_TH_SHIFT, EXTOLL_LOCK_TH_BITS),
        ],
    ),
    one("rma_rf_bq_timeout", EXTOLL_RF_RMA_BQ_TIMEOUT, &[bits("timeout", 0, 32), bits("enable", 32, 1)]),
    array(
        "rma_rf_vpid_table",
        EXTOLL_RF_RMA_VPID_TABLE,
        EXTOLL_RF_RMA_VPID_TABLE_STRIDE,
        PER_VPID,
        &[
            of("enable", VPID_ENABLE),
            of("completer_unit", VPID_COMPLETER),
            of("responder_unit", VPID_RESPONDER),
            of("excell", VPID_EXCELL),
            bits("tc0", EXTOLL_VPID_TCS_SHIFT, 2),
            bits("tc1", EXTOLL_VPID_TCS_SHIFT + 2, 2),
            bits("tc2", EXTOLL_VPID_TCS_SHIFT + 4, 2),
            bits("tc3", EXTOLL_VPID_TCS_SHIFT + 6, 2),
            of("protection_id", VPID_PROTECTION),
            bits("steering_tag", EXTOLL_VPID_TAG_SHIFT, EXTOLL_VPID_TAG_BITS),
            bits("tph", EXTOLL_VPID_TPH_SHIFT, EXTOLL_VPID_TPH_BITS),
            bits("th", EXTOLL_VPID_TH_SHIFT, EXTOLL_VPID_TH_BITS),
        ],
    ),
];
