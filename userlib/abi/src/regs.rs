//! The register file: offsets, fields, and the places of arrays' elements (spec 8).
//!
//! Offsets are the constants `EXTOLL_RF_*` of `kmod/uapi/extoll/regs.h`, bytes in BAR 0.

use crate::bits::Field;

pub use crate::bindings::*;

const fn element(base: u64, stride: u64, index: u64) -> u64 {
    base + stride * index
}

/// WCB state of a VPID (spec 2.4).
pub const fn wcb_state(vpid: u8) -> u64 {
    element(EXTOLL_RF_RMA_WCB_STATE, EXTOLL_RF_RMA_WCB_STATE_STRIDE, vpid as u64)
}

/// Read pointer of a VPID's notification queue (spec 3.2).
pub const fn bq_rp(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_RMA_RP, EXTOLL_RF_BQ_RP_STRIDE, vpid as u64)
}

/// Slots of a VPID's notification queue, less one (spec 3.2).
pub const fn bq_ub(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_RMA_UB, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Segment table of a VPID's notification queue (spec 3.2).
pub const fn bq_table(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_RMA_DCQ, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Current segment of a VPID's notification queue (spec 3.2).
pub const fn bq_current(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_RMA_CURRENT, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Next segment of a VPID's notification queue (spec 3.2).
pub const fn bq_next(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_RMA_NEXT, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Write pointer of a VPID's notification queue (spec 3.2).
pub const fn bq_wp(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_RMA_WP, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// WCB state of a VPID's VELO requester (spec 7).
pub const fn velo_wcb_state(vpid: u8) -> u64 {
    element(EXTOLL_RF_VELO_WCB_STATE, EXTOLL_RF_VELO_WCB_STATE_STRIDE, vpid as u64)
}

/// Read pointer of a VPID's mailbox (spec 3.2, 7).
pub const fn velo_bq_rp(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_VELO_RP, EXTOLL_RF_BQ_RP_STRIDE, vpid as u64)
}

/// Slots of a VPID's mailbox, less one (spec 3.2, 7).
pub const fn velo_bq_ub(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_VELO_UB, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Segment table of a VPID's mailbox (spec 3.2, 7).
pub const fn velo_bq_table(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_VELO_DCQ, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Current segment of a VPID's mailbox (spec 3.2, 7).
pub const fn velo_bq_current(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_VELO_CURRENT, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Next segment of a VPID's mailbox (spec 3.2, 7).
pub const fn velo_bq_next(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_VELO_NEXT, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// Write pointer of a VPID's mailbox (spec 3.2, 7).
pub const fn velo_bq_wp(vpid: u8) -> u64 {
    element(EXTOLL_RF_BQ_VELO_WP, EXTOLL_RF_BQ_STRIDE, vpid as u64)
}

/// What a VPID sends as over VELO (spec 7); see [`velo_tx_value`].
pub const fn velo_tx(vpid: u8) -> u64 {
    element(EXTOLL_RF_VELO_TX, EXTOLL_RF_VELO_DESC_STRIDE, vpid as u64)
}

/// What a VPID receives over VELO (spec 7); see [`velo_rx_value`].
pub const fn velo_rx(vpid: u8) -> u64 {
    element(EXTOLL_RF_VELO_RX, EXTOLL_RF_VELO_DESC_STRIDE, vpid as u64)
}

/// Entry of a VPID in the vpid_table (spec 8.3).
pub const fn vpid_table(vpid: u8) -> u64 {
    element(EXTOLL_RF_RMA_VPID_TABLE, EXTOLL_RF_RMA_VPID_TABLE_STRIDE, vpid as u64)
}

/// Register of translation table `table`, 0 to 1023 (spec 4.1).
pub const fn gat(table: u32) -> u64 {
    element(EXTOLL_RF_ATU_GAT, EXTOLL_RF_ATU_GAT_STRIDE, table as u64)
}

/// Interrupt vector `i`, 0 to 3: 64 VPIDs each (spec 8.3).
pub const fn int_vec(i: u32) -> u64 {
    element(EXTOLL_RF_RMA_INT_VEC, EXTOLL_RF_RMA_INT_VEC_STRIDE, i as u64)
}

/// Scratchpad `i`, 0 to 7; 3 is the network state (spec 8.2).
pub const fn scratchpad(i: u32) -> u64 {
    element(EXTOLL_RF_INFO_SCRATCHPAD, EXTOLL_RF_INFO_SCRATCHPAD_STRIDE, i as u64)
}

/// Status of link port `port`, 0 to 6 (spec 8.2).
pub const fn link_status(port: u32) -> u64 {
    element(EXTOLL_RF_LINK_STATUS, EXTOLL_RF_LINK_STRIDE, port as u64)
}

/// GUID and node at the other end of link port `port` (spec 8.2).
pub const fn link_ids(port: u32) -> u64 {
    element(EXTOLL_RF_LINK_IDS, EXTOLL_RF_LINK_STRIDE, port as u64)
}

/// Control of SMFU interval `i`, 0 to 63 (spec 6.1).
pub const fn smfu_control(i: u32) -> u64 {
    element(EXTOLL_RF_SMFU_INTERVAL_CONTROL, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i as u64)
}

/// First address of SMFU interval `i` (spec 6.1).
pub const fn smfu_start(i: u32) -> u64 {
    element(EXTOLL_RF_SMFU_INTERVAL_START, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i as u64)
}

/// Last address of SMFU interval `i` (spec 6.1).
pub const fn smfu_end(i: u32) -> u64 {
    element(EXTOLL_RF_SMFU_INTERVAL_END, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i as u64)
}

/// Counters of SMFU interval `i` (spec 6.1).
pub const fn smfu_count(i: u32) -> u64 {
    element(EXTOLL_RF_SMFU_INTERVAL_COUNT, EXTOLL_RF_SMFU_INTERVAL_STRIDE, i as u64)
}

/// Target base of SMFU interval `i` (spec 6.1, 6.2).
pub const fn smfu_target_base(i: u32) -> u64 {
    element(EXTOLL_RF_SMFU_VPID_T_START_ADDR, EXTOLL_RF_SMFU_VPID_T_START_ADDR_STRIDE, i as u64)
}

/// Register at `offset` of a VPID's trigger page (model only, `kmod/uapi/extoll/trigger.h`).
pub const fn trigger(vpid: u8, offset: u64) -> u64 {
    element(EXTOLL_RF_TRIGGER, EXTOLL_RF_TRIGGER_STRIDE, vpid as u64) + offset
}

macro_rules! fields {
    ($($(#[$meta:meta])* $name:ident = $shift:ident, $bits:ident;)*) => {
        $($(#[$meta])* pub const $name: Field = Field::new($shift, $bits);)*
    };
}

fields! {
    /// Node id in `EXTOLL_RF_INFO_NODE`.
    INFO_NODE = EXTOLL_INFO_NODE_SHIFT, EXTOLL_INFO_NODE_BITS;
    /// GUID in `EXTOLL_RF_INFO_NODE`.
    INFO_GUID = EXTOLL_INFO_GUID_SHIFT, EXTOLL_INFO_GUID_BITS;
    /// VPIDs in `EXTOLL_RF_INFO_NODE`.
    INFO_VPIDS = EXTOLL_INFO_VPIDS_SHIFT, EXTOLL_INFO_VPIDS_BITS;
    /// Link is enabled, in [`link_status`].
    LINK_ENABLE = EXTOLL_LINK_ENABLE_SHIFT, EXTOLL_LINK_ENABLE_BITS;
    /// Link is up, in [`link_status`].
    LINK_READY = EXTOLL_LINK_READY_SHIFT, EXTOLL_LINK_READY_BITS;
    /// Retransmissions, in [`link_status`].
    LINK_RETRANSMIT = EXTOLL_LINK_RETRANSMIT_SHIFT, EXTOLL_LINK_RETRANSMIT_BITS;
    /// Error bits, in [`link_status`].
    LINK_ERRORS = EXTOLL_LINK_ERRORS_SHIFT, EXTOLL_LINK_ERRORS_BITS;
    /// GUID at the other end, in [`link_ids`].
    LINK_REMOTE_GUID = EXTOLL_LINK_REMOTE_GUID_SHIFT, EXTOLL_LINK_REMOTE_GUID_BITS;
    /// Node at the other end, in [`link_ids`].
    LINK_REMOTE_NODE = EXTOLL_LINK_REMOTE_NODE_SHIFT, EXTOLL_LINK_REMOTE_NODE_BITS;
    /// Queues run, in `EXTOLL_RF_BQ_RMA_GENERAL`.
    BQ_ENABLE = EXTOLL_BQ_ENABLE_SHIFT, EXTOLL_BQ_ENABLE_BITS;
    /// A queue's timeout passed, in `EXTOLL_RF_BQ_RMA_GENERAL`.
    BQ_ASSERT_TIMEOUT = EXTOLL_BQ_ASSERT_TIMEOUT_SHIFT, EXTOLL_BQ_ASSERT_TIMEOUT_BITS;
    /// The queue that failed, in `EXTOLL_RF_BQ_RMA_GENERAL`.
    BQ_FAILED_QUEUE = EXTOLL_BQ_FAILED_QUEUE_SHIFT, EXTOLL_BQ_FAILED_QUEUE_BITS;
    /// Failures, in `EXTOLL_RF_BQ_RMA_GENERAL`.
    BQ_ERRORS = EXTOLL_BQ_ERRORS_SHIFT, EXTOLL_BQ_ERRORS_BITS;
    /// Slots less one, in [`bq_ub`].
    BQ_UB = EXTOLL_BQ_UB_SHIFT, EXTOLL_BQ_UB_BITS;
    /// MTU, in `EXTOLL_RF_RMA_CONFIG`.
    CONFIG_MTU = EXTOLL_RMA_CONFIG_MTU_SHIFT, EXTOLL_RMA_CONFIG_MTU_BITS;
    /// Error notifications even where none is asked for, in `EXTOLL_RF_RMA_CONFIG`.
    CONFIG_FORCE_ERRORS = EXTOLL_RMA_CONFIG_FORCE_ERRORS_SHIFT, EXTOLL_RMA_CONFIG_FORCE_ERRORS_BITS;
    /// Locks of each VPID, in `EXTOLL_RF_RMA_LOCK_CONFIG`.
    LOCK_COUNT = EXTOLL_LOCK_COUNT_SHIFT, EXTOLL_LOCK_COUNT_BITS;
    /// Number of VPIDs with locks, in `EXTOLL_RF_RMA_LOCK_CONFIG`.
    LOCK_VPIDS = EXTOLL_LOCK_VPIDS_SHIFT, EXTOLL_LOCK_VPIDS_BITS;
    /// Port is open, in [`vpid_table`].
    VPID_ENABLE = EXTOLL_VPID_ENABLE_SHIFT, EXTOLL_VPID_ENABLE_BITS;
    /// Completer unit, in [`vpid_table`].
    VPID_COMPLETER = EXTOLL_VPID_COMPLETER_SHIFT, EXTOLL_VPID_COMPLETER_BITS;
    /// Responder unit, in [`vpid_table`].
    VPID_RESPONDER = EXTOLL_VPID_RESPONDER_SHIFT, EXTOLL_VPID_RESPONDER_BITS;
    /// ERA and EWA are allowed, in [`vpid_table`].
    VPID_EXCELL = EXTOLL_VPID_EXCELL_SHIFT, EXTOLL_VPID_EXCELL_BITS;
    /// Traffic classes 0 to 3, two bits each, in [`vpid_table`].
    VPID_TCS = EXTOLL_VPID_TCS_SHIFT, EXTOLL_VPID_TCS_BITS;
    /// Protection id, in [`vpid_table`].
    VPID_PROTECTION = EXTOLL_VPID_PROTECTION_SHIFT, EXTOLL_VPID_PROTECTION_BITS;
    /// Protection id of what is sent, in [`velo_tx`].
    VELO_TX_PROTECTION = EXTOLL_VELO_TX_PROTECTION_SHIFT, EXTOLL_VELO_TX_PROTECTION_BITS;
    /// Node that it is sent as, in [`velo_tx`].
    VELO_TX_NODE = EXTOLL_VELO_TX_NODE_SHIFT, EXTOLL_VELO_TX_NODE_BITS;
    /// VPID that it is sent as, in [`velo_tx`].
    VELO_TX_VPID = EXTOLL_VELO_TX_VPID_SHIFT, EXTOLL_VELO_TX_VPID_BITS;
    /// Protection id that messages must carry, in [`velo_rx`].
    VELO_RX_PROTECTION = EXTOLL_VELO_RX_PROTECTION_SHIFT, EXTOLL_VELO_RX_PROTECTION_BITS;
    /// Messages are rerouted, in [`velo_rx`].
    VELO_RX_REROUTE = EXTOLL_VELO_RX_REROUTE_SHIFT, EXTOLL_VELO_RX_REROUTE_BITS;
    /// Mailbox is ready, in [`velo_rx`].
    VELO_RX_MAILBOX = EXTOLL_VELO_RX_MAILBOX_SHIFT, EXTOLL_VELO_RX_MAILBOX_BITS;
    /// Ticks that a full mailbox holds back the network, in `EXTOLL_RF_VELO_TIMEOUT`.
    VELO_TIMEOUT = EXTOLL_VELO_TIMEOUT_VALUE_SHIFT, EXTOLL_VELO_TIMEOUT_VALUE_BITS;
    /// That timeout is on, in `EXTOLL_RF_VELO_TIMEOUT`.
    VELO_TIMEOUT_ENABLE = EXTOLL_VELO_TIMEOUT_ENABLE_SHIFT, EXTOLL_VELO_TIMEOUT_ENABLE_BITS;
    /// Where to reroute, in `EXTOLL_RF_VELO_COMPLETER`.
    VELO_COMPLETER_PORT = EXTOLL_VELO_COMPLETER_PORT_SHIFT, EXTOLL_VELO_COMPLETER_PORT_BITS;
    /// Slots of 128 bytes \[inferred\], in `EXTOLL_RF_VELO_COMPLETER`.
    VELO_COMPLETER_128 = EXTOLL_VELO_COMPLETER_128_SHIFT, EXTOLL_VELO_COMPLETER_128_BITS;
    /// Clear the history, in the error controls.
    ERROR_CLEAR_HISTORY = EXTOLL_ERROR_CLEAR_HISTORY_SHIFT, EXTOLL_ERROR_CLEAR_HISTORY_BITS;
    /// Clear the counters, in the error controls.
    ERROR_CLEAR_COUNTS = EXTOLL_ERROR_CLEAR_COUNTS_SHIFT, EXTOLL_ERROR_CLEAR_COUNTS_BITS;
    /// Tags of the table, in `EXTOLL_TRIGGER_CONTROL` (model only).
    TRIGGER_ENTRIES = EXTOLL_TRIGGER_ENTRIES_SHIFT, EXTOLL_TRIGGER_ENTRIES_BITS;
    /// How they are looked up, in `EXTOLL_TRIGGER_CONTROL`.
    TRIGGER_LOOKUP = EXTOLL_TRIGGER_LOOKUP_SHIFT, EXTOLL_TRIGGER_LOOKUP_BITS;
    /// Bytes added to the local address, in a trigger's WHERE (model only).
    TRIGGER_LOCAL = EXTOLL_TRIGGER_LOCAL_SHIFT, EXTOLL_TRIGGER_LOCAL_BITS;
    /// Bytes added to the remote address, in a trigger's WHERE.
    TRIGGER_REMOTE = EXTOLL_TRIGGER_REMOTE_SHIFT, EXTOLL_TRIGGER_REMOTE_BITS;
    /// Bytes, in a trigger's WHAT (model only).
    TRIGGER_SIZE = EXTOLL_TRIGGER_SIZE_SHIFT, EXTOLL_TRIGGER_SIZE_BITS;
    /// Target node, in a trigger's WHAT.
    TRIGGER_NODE = EXTOLL_TRIGGER_NODE_SHIFT, EXTOLL_TRIGGER_NODE_BITS;
    /// Target VPID, in a trigger's WHAT.
    TRIGGER_VPID = EXTOLL_TRIGGER_VPID_SHIFT, EXTOLL_TRIGGER_VPID_BITS;
    /// Node and VPID count, in a trigger's WHAT.
    TRIGGER_HAS_TARGET = EXTOLL_TRIGGER_HAS_TARGET_SHIFT, EXTOLL_TRIGGER_HAS_TARGET_BITS;
    /// The slot re-arms, in a trigger's WHAT.
    TRIGGER_IS_REARM = EXTOLL_TRIGGER_IS_REARM_SHIFT, EXTOLL_TRIGGER_IS_REARM_BITS;
    /// The slot has fields, in a trigger's WHAT.
    TRIGGER_HAS_FIELDS = EXTOLL_TRIGGER_HAS_FIELDS_SHIFT, EXTOLL_TRIGGER_HAS_FIELDS_BITS;
    /// Triggers that start the operation, in `EXTOLL_TRIGGER_HOW` (model only).
    TRIGGER_THRESHOLD = EXTOLL_TRIGGER_THRESHOLD_SHIFT, EXTOLL_TRIGGER_THRESHOLD_BITS;
    /// Page option, in `EXTOLL_TRIGGER_HOW`.
    TRIGGER_OPTION = EXTOLL_TRIGGER_OPTION_SHIFT, EXTOLL_TRIGGER_OPTION_BITS;
    /// Triggers may bring fields, in `EXTOLL_TRIGGER_HOW`.
    TRIGGER_FIELDS = EXTOLL_TRIGGER_FIELDS_SHIFT, EXTOLL_TRIGGER_FIELDS_BITS;
    /// There is such a word, in `EXTOLL_TRIGGER_DONE` and `EXTOLL_TRIGGER_STATUS` (model only).
    TRIGGER_VALID = EXTOLL_TRIGGER_VALID_SHIFT, EXTOLL_TRIGGER_VALID_BITS;
    /// How often the operation is complete, in its completion word (model only).
    TRIGGER_WORD_TIMES = EXTOLL_TRIGGER_WORD_TIMES_SHIFT, EXTOLL_TRIGGER_WORD_TIMES_BITS;
    /// Units with errors, in a completion word.
    TRIGGER_WORD_ERROR = EXTOLL_TRIGGER_WORD_ERROR_SHIFT, EXTOLL_TRIGGER_WORD_ERROR_BITS;
}

/// The driver's vpid_table value of an open port with this protection id (spec 8.3).
pub const fn vpid_entry(protection: u16) -> u64 {
    VPID_ENABLE.put(1)
        | VPID_COMPLETER.put(EXTOLL_VPID_COMPLETER_DEFAULT)
        | VPID_RESPONDER.put(EXTOLL_VPID_RESPONDER_DEFAULT)
        | VPID_TCS.put(EXTOLL_VPID_TCS_DEFAULT)
        | VPID_PROTECTION.put(protection as u64)
}

/// Value of [`velo_tx`]: a VPID that sends under its own name with this protection id (spec 7).
pub const fn velo_tx_value(node: u16, vpid: u8, protection: u16) -> u64 {
    VELO_TX_PROTECTION.put(protection as u64) | VELO_TX_NODE.put(node as u64) | VELO_TX_VPID.put(vpid as u64)
}

/// Value of [`velo_rx`]: a VPID with a mailbox for messages with this protection id (spec 7).
pub const fn velo_rx_value(protection: u16) -> u64 {
    VELO_RX_PROTECTION.put(protection as u64) | VELO_RX_MAILBOX.put(1)
}

/// Lock configuration: locks of each VPID, number of VPIDs (spec 5).
pub const fn lock_config(locks: u32, vpids: u32) -> u64 {
    LOCK_COUNT.put(locks as u64) | LOCK_VPIDS.put(vpids as u64)
}

/// A trigger's WHERE: bytes added to the local and the remote address (model only).
pub const fn trigger_where(local: u32, remote: u32) -> u64 {
    TRIGGER_LOCAL.put(local as u64) | TRIGGER_REMOTE.put(remote as u64)
}

/// A trigger's WHAT: bytes, 0 for as many as registered, and another target (model only).
pub const fn trigger_what(size: u32, target: Option<(u16, u8)>) -> u64 {
    let fields = TRIGGER_SIZE.put(size as u64) | TRIGGER_HAS_FIELDS.put(1);
    match target {
        None => fields,
        Some((node, vpid)) => {
            let target = TRIGGER_NODE.put(node as u64) | TRIGGER_VPID.put(vpid as u64);
            fields | target | TRIGGER_HAS_TARGET.put(1)
        }
    }
}

/// An error counter: 15 bits at `shift` of its register, an overflow bit above them (spec 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCounter {
    /// Offset of the register.
    pub register: u64,
    /// First bit: 0, 16, 32 or 48.
    pub shift: u32,
    /// Unit and name as in the specification.
    pub name: &'static str,
}

impl ErrorCounter {
    /// Count in the register's value.
    #[inline]
    pub const fn count(self, value: u64) -> u16 {
        (value >> self.shift & 0x7fff) as u16
    }

    /// Whether the count passed its end since it was cleared.
    #[inline]
    pub const fn overflowed(self, value: u64) -> bool {
        value >> self.shift & 0x8000 != 0
    }

    /// The register's value after one more error: past 32767 the count begins at 0 again and the overflow
    /// bit stays set \[inferred\].
    #[inline]
    pub const fn incremented(self, value: u64) -> u64 {
        let overflow = value >> self.shift & 0x8000;
        let next = ((value >> self.shift & 0x7fff) + 1) | overflow;
        value & !(0xffff << self.shift) | next << self.shift
    }
}

macro_rules! error_counters {
    ($($const:ident = $register:ident, $shift:ident, $name:literal;)*) => {
        $(
            #[doc = concat!("Counter of ", $name, " errors.")]
            pub const $const: ErrorCounter =
                ErrorCounter { register: $register, shift: $shift as u32, name: $name };
        )*
        /// Every error counter of the RMA unit.
        pub const ERROR_COUNTERS: &[ErrorCounter] = &[$($const),*];
    };
}

error_counters! {
    REQ_EXLREG = EXTOLL_RF_RMA_REQ_ERRORS, EXTOLL_REQ_EXLREG_SHIFT, "requester exlreg";
    REQ_CMDT = EXTOLL_RF_RMA_REQ_ERRORS, EXTOLL_REQ_CMDT_SHIFT, "requester cmdt";
    REQ_EXLDIS = EXTOLL_RF_RMA_REQ_ERRORS, EXTOLL_REQ_EXLDIS_SHIFT, "requester exldis";
    REQ_TRANS = EXTOLL_RF_RMA_REQ_ERRORS, EXTOLL_REQ_TRANS_SHIFT, "requester trans";
    REQ_BQT = EXTOLL_RF_RMA_REQ_ERRORS_2, EXTOLL_REQ_BQT_SHIFT, "requester bqt";
    RESP_EXLREG = EXTOLL_RF_RMA_RESP_ERRORS, EXTOLL_RESP_EXLREG_SHIFT, "responder exlreg";
    RESP_CMDT = EXTOLL_RF_RMA_RESP_ERRORS, EXTOLL_RESP_CMDT_SHIFT, "responder cmdt";
    RESP_ERRCMD = EXTOLL_RF_RMA_RESP_ERRORS, EXTOLL_RESP_ERRCMD_SHIFT, "responder errcmd";
    RESP_VPID = EXTOLL_RF_RMA_RESP_ERRORS, EXTOLL_RESP_VPID_SHIFT, "responder vpid";
    RESP_PDID = EXTOLL_RF_RMA_RESP_ERRORS_2, EXTOLL_RESP_PDID_SHIFT, "responder pdid";
    RESP_EXLDIS = EXTOLL_RF_RMA_RESP_ERRORS_2, EXTOLL_RESP_EXLDIS_SHIFT, "responder exldis";
    RESP_LOCK = EXTOLL_RF_RMA_RESP_ERRORS_2, EXTOLL_RESP_LOCK_SHIFT, "responder lock";
    RESP_TRANS = EXTOLL_RF_RMA_RESP_ERRORS_2, EXTOLL_RESP_TRANS_SHIFT, "responder trans";
    RESP_BQT = EXTOLL_RF_RMA_RESP_ERRORS_3, EXTOLL_RESP_BQT_SHIFT, "responder bqt";
    COMPL_EXLREG = EXTOLL_RF_RMA_COMPL_ERRORS, EXTOLL_COMPL_EXLREG_SHIFT, "completer exlreg";
    COMPL_CMDT = EXTOLL_RF_RMA_COMPL_ERRORS, EXTOLL_COMPL_CMDT_SHIFT, "completer cmdt";
    COMPL_NOSOP = EXTOLL_RF_RMA_COMPL_ERRORS, EXTOLL_COMPL_NOSOP_SHIFT, "completer nosop";
    COMPL_HDRSHRT = EXTOLL_RF_RMA_COMPL_ERRORS, EXTOLL_COMPL_HDRSHRT_SHIFT, "completer hdrshrt";
    COMPL_NODAT = EXTOLL_RF_RMA_COMPL_ERRORS_2, EXTOLL_COMPL_NODAT_SHIFT, "completer nodat";
    COMPL_FEWDAT = EXTOLL_RF_RMA_COMPL_ERRORS_2, EXTOLL_COMPL_FEWDAT_SHIFT, "completer fewdat";
    COMPL_MOREDAT = EXTOLL_RF_RMA_COMPL_ERRORS_2, EXTOLL_COMPL_MOREDAT_SHIFT, "completer moredat";
    COMPL_ERRCMD = EXTOLL_RF_RMA_COMPL_ERRORS_2, EXTOLL_COMPL_ERRCMD_SHIFT, "completer errcmd";
    COMPL_VPID = EXTOLL_RF_RMA_COMPL_ERRORS_3, EXTOLL_COMPL_VPID_SHIFT, "completer vpid";
    COMPL_PDID = EXTOLL_RF_RMA_COMPL_ERRORS_3, EXTOLL_COMPL_PDID_SHIFT, "completer pdid";
    COMPL_EXLDIS = EXTOLL_RF_RMA_COMPL_ERRORS_3, EXTOLL_COMPL_EXLDIS_SHIFT, "completer exldis";
    COMPL_TRANS = EXTOLL_RF_RMA_COMPL_ERRORS_3, EXTOLL_COMPL_TRANS_SHIFT, "completer trans";
    COMPL_BQT = EXTOLL_RF_RMA_COMPL_ERRORS_4, EXTOLL_COMPL_BQT_SHIFT, "completer bqt";
}
