#!/usr/bin/env python3
"""Derives vectors.txt from the bit tables of the specification, independently of our encoders.

Every field stands below as (high, low) bits, as the specification prints them. Run it after the
specification changed: `python3 tests/golden/derive.py`; it writes vectors.txt and constants.txt beside
itself. The tests read the text files only.
"""

import contextlib
import pathlib

M64 = (1 << 64) - 1

# Word 0 of a descriptor (spec 2.2): argument -> bits.
HEADER = {"vpid": (15, 8), "node": (31, 16), "spec": (34, 32), "modifier": (38, 35)}
# Word 1 of a notification (spec 3.1).
NOTI = {"vpid": (30, 23), "node": (47, 32), "kind": (50, 48), "command": (54, 51), "mode": (60, 55), "error": (63, 61)}


def at(value, bits):
    high, low = bits
    assert 0 <= value < 1 << (high - low + 1), (value, bits)
    return value << low


def header(command, a):
    return 3 | at(command, (5, 2)) | sum(at(a[name], bits) for name, bits in HEADER.items())


def sized(command):
    def words(a):
        return [header(command, a) | at(a["size"] - 1, (62, 40)), a["read"], a["write"]]
    return words


def notification_put(a):
    return [header(5, a) | at(a["class"], (47, 40)), a["payload"], 0]


def immediate_put(a):
    return [header(6, a) | at(a["count"] - 1, (42, 40)), a["write"], a["value"]]


def lock(a):
    word1 = at(a["compare"], (63, 32)) | at(a["number"], (23, 0))
    return [header(12, a) | at(a["to_responder"], (40, 40)), word1, at(a["add"], (63, 32))]


def noti(field, word0):
    def words(a):
        word1 = at(field(a), (22, 0)) | sum(at(a[name], bits) for name, bits in NOTI.items())
        return [word0(a), word1]
    return words


def lock_word0(a):
    return at(a["number"], (23, 0)) | at(a["result"], (31, 24)) | at(a["value"], (63, 32))


def segment(a):
    word = at(a["slot_size"], (1, 0)) | at(a["slots"] - 1, (17, 2)) | at(a["address"] >> 12, (57, 18))
    return [word | at(a["valid"], (58, 58))]


def gate(a):
    word = at(a["access"], (1, 0)) | at(a["vpid"], (11, 2)) | at(a["address"] >> 12, (51, 12))
    return [word | at(a["size"], (63, 59))]


def wcb(a):
    """Committed, retry, idle, rejected, and the state that software writes back."""
    state = a["state"]
    bit = lambda i: state >> i & 1
    cleared = state & ~(1 << 32) & ~(0xFF << 56)
    return [state & 0xFF, bit(32), int(bit(33) == bit(34)), state >> 56, cleared]


def smfu_interval(a):
    """Hit, node, offset (spec 6.1, 6.2): bounds are page-granular, the end is inclusive."""
    page, start, end = (a[name] >> 12 for name in ("address", "start", "end"))
    hit = a["control"] & 1 and page >> 36 == 0 and start <= page <= end
    return [1, a["control"] >> 16 & 0xFFFF, a["address"] - (start << 12)] if hit else [0, 0, 0]


def smfu_masked(a):
    """Node, offset (spec 6.2)."""
    g, mask = a["address"] - a["window"], a["mask"] & 0xFFFFFFFFFFC0
    field = (g & mask) // (mask & -mask) if mask else 0
    return [(field + a["node_offset"]) & 0xFFFF, g & ~mask & M64]


def velo_header(a):
    bits = {"node": (15, 0), "vpid": (25, 16), "group": (31, 31), "mtt": (33, 32), "interrupt": (34, 34),
            "tag": (47, 40), "length": (58, 48)}
    return [sum(at(a[name], where) for name, where in bits.items())]


def velo_status(a):
    bits = {"node": (15, 0), "vpid": (25, 16), "mtt": (33, 32), "end": (36, 36), "error": (37, 37),
            "tag": (47, 40), "length": (59, 48)}
    return [sum(at(a[name], where) for name, where in bits.items())]


def velo_size(a):
    """Quadwords of the payload, slots of the mailbox (spec 7): 56 bytes to a slot of 64, 120 to one of 128."""
    length = a["length"]
    slots = 1 if a["slot_bytes"] == 128 or length <= 56 else 2 if length <= 112 else 3
    return [-(-length // 8), slots]


REGISTERS = {  # base and stride, spec 2.4, 3.2, 4.1, 6.1, 7, 8.2, 8.3
    "wcb_state": (0x1400000, 0x1000, 256), "bq_ub": (0xE00800, 8, 256), "bq_table": (0xE01000, 8, 256),
    "bq_current": (0xE01800, 8, 256), "bq_next": (0xE02000, 8, 256), "bq_wp": (0xE02800, 8, 256),
    "bq_rp": (0xF00000, 4096, 256), "vpid_table": (0x1600800, 8, 256), "gat": (0xE000, 8, 1024),
    "int_vec": (0x1600020, 8, 4), "scratchpad": (0x8038, 8, 8), "link_status": (0x460008, 0x80, 7),
    "link_ids": (0x460018, 0x80, 7), "smfu_control": (0xA080, 0x20, 64), "smfu_start": (0xA088, 0x20, 64),
    "smfu_end": (0xA090, 0x20, 64), "smfu_count": (0xA098, 0x20, 64), "smfu_target_base": (0xA880, 8, 64),
    "velo_wcb_state": (0x1000000, 0x1000, 256), "velo_bq_ub": (0xC00800, 8, 256), "velo_bq_table": (0xC01000, 8, 256),
    "velo_bq_current": (0xC01800, 8, 256), "velo_bq_next": (0xC02000, 8, 256), "velo_bq_wp": (0xC02800, 8, 256),
    "velo_bq_rp": (0xD00000, 4096, 256), "velo_tx": (0x1200800, 8, 256), "velo_rx": (0x1201000, 8, 256),
}

# Fields with their smallest and largest value and one pattern between.
ADDRESS = (0, M64, 0x123456789ABCDEF0)
COMMON = {"node": (0, 0xFFFF, 0x1234), "vpid": (0, 0xFF, 0x56), "spec": (0, 7, 5), "modifier": (0, 15, 2)}
NCOMMON = {"node": (0, 0xFFFF, 0x1234), "vpid": (0, 0xFF, 0x56), "mode": (0, 63, 20), "error": (0, 7, 4)}
BYTES = {"read": ADDRESS, "write": ADDRESS, "size": (1, 8 << 20, 4096)}
QUADS = {"read": (0, M64 - 7, 0x40000008), "write": (0, M64 - 7, 0x1240000010), "size": (8, 8 << 20, 4096)}
I32 = (0x80000000, 0x7FFFFFFF, 0xFFFFFFF9)  # least, greatest, -7
PAGE52 = (0, (1 << 52) - 4096, 0x123456789A000)


def kinds(fields, kind_commands):
    """One set of fields for each kind and command that a notification can have."""
    return [{"kind": (k, k, k), "command": (c, c, c), **NCOMMON, **fields} for k, c in kind_commands]


TRANSFER = [(k, c) for k in (1, 2, 4) for c in (0, 1, 2, 3, 10, 11)] + [(2, 6), (4, 6)]
OPS = [
    ("bt_get", [{**COMMON, **BYTES}], sized(0)),
    ("qw_get", [{**COMMON, **QUADS}], sized(1)),
    ("bt_put", [{**COMMON, **BYTES}], sized(2)),
    ("qw_put", [{**COMMON, **QUADS}], sized(3)),
    ("notification_put", [{**COMMON, "class": (0, 255, 42), "payload": ADDRESS}], notification_put),
    ("immediate_put", [{**COMMON, "count": (1, 8, 5), "write": ADDRESS, "value": ADDRESS}], immediate_put),
    ("lock", [{**COMMON, "to_responder": (0, 1, 1), "number": (0, 0xFFFFFF, 0xABCDE), "compare": I32, "add": I32}], lock),
    ("page", [{"option": (0, 31, 16), "vpid": (0, 255, 7)}], lambda a: [at(a["option"], (24, 20)) | at(a["vpid"], (19, 12))]),
    ("noti_transfer", kinds({"size": (1, 8 << 20, 496), "address": ADDRESS}, TRANSFER),
     noti(lambda a: a["size"] - 1, lambda a: a["address"])),
    ("noti_class", kinds({"class": (0, 255, 42), "payload": ADDRESS}, [(1, 5), (4, 5)]),
     noti(lambda a: a["class"], lambda a: a["payload"])),
    ("noti_immediate", kinds({"count": (1, 8, 7), "value": ADDRESS}, [(1, 6)]),
     noti(lambda a: a["count"] - 1, lambda a: a["value"])),
    ("noti_lock", kinds({"number": (0, 0xFFFFFF, 0xABCDE), "result": (0, 255, 1), "value": I32},
                        [(1, 12), (2, 12), (4, 13)]), noti(lambda a: 0, lock_word0)),
    ("noti_unknown", kinds({"field": (0, 0x7FFFFF, 0x12345), "word0": ADDRESS}, [(1, 4), (4, 4), (1, 15)]),
     noti(lambda a: a["field"], lambda a: a["word0"])),
    ("nla", [{"table": (0, 1023, 80), "entry": (0, 262143, 0x12345), "offset": (0, 4095, 0x678)}],
     lambda a: [at(a["table"], (39, 30)) | at(a["entry"], (29, 12)) | at(a["offset"], (11, 0))]),
    ("gat", [{"address": (0, (1 << 52) - (1 << 21), 0x123400000)}], lambda a: [at(a["address"] >> 21, (30, 0)) | 1 << 31]),
    ("gate", [{"vpid": (0, 255, 7), "access": (1, 3, 2), "address": PAGE52, "size": (0, 0, 0)},
              {"vpid": (0, 255, 7), "access": (1, 3, 2), "address": (0, (1 << 52) - (1 << 16), 1 << 16), "size": (4, 4, 4)},
              {"vpid": (0, 255, 7), "access": (1, 3, 2), "address": (0, (1 << 52) - (1 << 21), 1 << 21), "size": (9, 9, 9)},
              {"vpid": (0, 255, 7), "access": (1, 3, 2), "address": (0, (1 << 52) - (1 << 30), 1 << 30), "size": (18, 18, 18)}], gate),
    ("atu_flush_pages", [{"page": (0, (1 << 28) - 1, 0x1234567), "count": (1, 1024, 256)}],
     lambda a: [1 << 60 | at(a["count"] - 1, (37, 28)) | at(a["page"], (27, 0))]),
    ("atu_flush_vpid", [{"vpid": (0, 1023, 254)}], lambda a: [2 << 60 | at(a["vpid"], (9, 0))]),
    ("atu_fence", [{}], lambda a: [3 << 60]),
    ("atu_notify", [{"address": (0, (1 << 48) - 1, 0x123456789A00)}], lambda a: [4 << 60 | at(a["address"], (47, 0))]),
    ("bq_segment", [{"slot_size": (0, 3, 2), "slots": (1, 65536, 4096), "address": PAGE52, "valid": (0, 1, 1)}], segment),
    ("bq_table", [{"address": PAGE52, "segments": (1, 512, 4)}],
     lambda a: [at(a["address"] >> 12, (55, 16)) | at(a["segments"] - 1, (15, 0))]),
    ("bq_rp", [{"index": (0, 0xFFFFFFFF, 16383), "rearm": (0, 1, 1)}], lambda a: [a["index"] | at(a["rearm"], (32, 32))]),
    ("wcb", [{"state": (0, M64, 0x2200000100ABCDEF)}, {"state": (255, 1 << 32, 1 << 33)},
             {"state": (1 << 34, 3 << 33, 1 << 56)}], wcb),
    ("vpid_entry", [{"protection": (0, 0xFFFF, 0x1234)}],  # enable, completer 1, responder 2, classes 1 1 3 3
     lambda a: [1 | at(1, (3, 1)) | at(2, (6, 4)) | at(1 | 1 << 2 | 3 << 4 | 3 << 6, (15, 8)) | at(a["protection"], (31, 16))]),
    ("lock_config", [{"locks": (0, (1 << 25) - 1, 16), "vpids": (0, 1023, 256)}],
     lambda a: [at(a["locks"], (24, 0)) | at(a["vpids"], (40, 31))]),
    # Model only: ours, not the specification's (kmod/uapi/extoll/trigger.h).
    ("trigger_where", [{"local": (0, 0xFFFFFFFF, 0x12345678), "remote": (0, 0xFFFFFFFF, 0x9ABCDEF0)}],
     lambda a: [at(a["local"], (31, 0)) | at(a["remote"], (63, 32))]),
    ("trigger_what", [{"size": (0, 1 << 23, 0x1234), "target": (0, 1, 1), "node": (0, 0xFFFF, 0x1234), "vpid": (0, 0xFF, 0x56)}],
     lambda a: [at(a["size"], (23, 0)) | at(a["node"] * a["target"], (39, 24)) | at(a["vpid"] * a["target"], (47, 40))
                | at(a["target"], (61, 61)) | at(1, (63, 63))]),
    ("smfu_control", [{"node": (0, 0xFFFF, 7)}], lambda a: [0x301 | at(a["node"], (31, 16))]),
    ("smfu_interval", [
        {"control": (0x50301, 0x50301, 0x50300), "start": (0x10000000,) * 3, "end": (0x11FFFFFF,) * 3,
         "address": (0x10000000, 0x11FFFFFF, 0x0FFFFFFF)},
        {"control": (0xFFFF0301,) * 3, "start": (0x10000000,) * 3, "end": (0x10000000,) * 3,
         "address": (0x10000FFF, 0x10001000, 1 << 48 | 0x10000000)}], smfu_interval),
    ("smfu_masked", [
        {"window": (0x10000000,) * 3, "mask": (0, 0xFC000000, 0xFFFFFFFFFFFF), "node_offset": (0, 0xFFFF, 3),
         "address": (0x10000000, 0x1FFFFFFF, 0x16345678)}], smfu_masked),
    ("velo_page", [{"tc": (0, 3, 2), "vpid": (0, 255, 7)}], lambda a: [at(a["tc"], (21, 20)) | at(a["vpid"], (19, 12))]),
    ("velo_header", [{"node": (0, 0xFFFF, 0x1234), "vpid": (0, 255, 0x56), "mtt": (0, 3, 2), "tag": (0, 255, 0xA5),
                      "length": (0, 120, 64), "group": (0, 1, 0), "interrupt": (0, 1, 1)}], velo_header),
    ("velo_status", [{"node": (0, 0xFFFF, 0x1234), "vpid": (0, 255, 0x56), "mtt": (0, 3, 2), "end": (0, 1, 1),
                      "error": (0, 1, 0), "tag": (0, 255, 0xA5), "length": (0, 120, 64)}], velo_status),
    ("velo_size", [{"slot_bytes": (64, 64, 128), "length": (0, 120, 64)},
                   {"slot_bytes": (64, 64, 64), "length": (56, 112, 57)}, {"slot_bytes": (128, 128, 64), "length": (8, 120, 113)}],
     velo_size),
    ("velo_tx", [{"node": (0, 0xFFFF, 0x1234), "vpid": (0, 255, 0x56), "protection": (0, 0xFFFF, 0xBEEF)}],
     lambda a: [at(a["protection"], (15, 0)) | at(a["node"], (31, 16)) | at(a["vpid"], (39, 32))]),
    ("velo_rx", [{"protection": (0, 0xFFFF, 0xBEEF)}], lambda a: [at(a["protection"], (15, 0)) | 1 << 17]),
]
OPS += [("rf_" + name, [{"index": (0, count - 1, count // 2 + 1)}], lambda a, b=base, s=stride: [b + s * a["index"]])
        for name, (base, stride, count) in REGISTERS.items()]


def rows(fields):
    """Everything least, everything greatest, the pattern, and each field alone greatest."""
    names = list(fields)
    base = [fields[n][0] for n in names]
    yield tuple(base)
    yield tuple(fields[n][1] for n in names)
    yield tuple(fields[n][2] for n in names)
    for i, name in enumerate(names):
        yield tuple(fields[name][1] if i == j else v for j, v in enumerate(base))


# Single registers by unit (spec 2.4, 3.2, 4.1, 5, 6.1, 7, 8.2-8.4): name -> offset.
CONSTANTS = {
    "BAR0": {"RF": 0, "VELO": 0x2000000, "RMA": 0x4000000},
    "RF_INFO": {"DRIVER": 0x8000, "NODE": 0x8008, "TSC": 0x8028, "TSC_LOAD": 0x8030, "NETWORK_STATE": 0x8050,
                "TSC_ENABLE": 0x8078, "TIMER": 0x8080},
    "RF_HTAX": {"UPPER": 0x9200, "LOWER": 0x9208, "CONTROL": 0x9210, "STRIDE": 0x18, "GENERAL": 0x9290},
    "RF_NP": {"TX_COUNT": 0x9400, "RX_COUNT": 0x9408, "GENERAL": 0x9418, "STRIDE": 0x80},
    "RF_SMFU": {"STATUS_CONTROL": 0xA000, "TRAFFIC_CLASS": 0xA008, "TIMEOUT_CONTROL": 0xA010, "SENT_NP": 0xA020,
                "SENT_P": 0xA028, "SENT_RSP": 0xA030, "RCVD_NP": 0xA038, "RCVD_P": 0xA040, "RCVD_RSP": 0xA048,
                "O_START_ADDR": 0xA058, "T_START_ADDR": 0xA060, "N_NODE_OFFSET": 0xA068, "ADDR_MASK": 0xA070},
    "RF_ATU": {"ENABLE": 0xC000, "COMMAND": 0xC008, "COUNTERS": 0xC010, "COUNTERS_LAST": 0xC038,
               "EXCELLERATE_PORT": 0xC050, "EXCELLERATE_ADDRESS": 0xC058, "PRELOAD": 0xD000, "PRELOAD_STRIDE": 16},
    "RF_SNQ": {"TRIGGER_ENABLE": 0x10000, "TRIGGER_NOW": 0x10008, "TRIGGER_ONCE_ENABLE": 0x10010,
               "TRIGGER_ONCE": 0x10018, "BASE": 0x10020, "MASK": 0x10028, "WP": 0x10030, "RP": 0x10038,
               "WATERMARK": 0x10040, "IRQ": 0x10048, "EXECUTE": 0x10068, "HTAX": 0x10070, "PROGRAM": 0x10800},
    "RF_XBAR": {"INPORT": 0x400000, "INPORT_STRIDE": 0x4000, "MULTICAST": 0x200, "GLOBAL": 0x400, "LOCAL": 0x2000,
                "OUTPORT_COUNT": 0x42C000, "OUTPORT_GENERAL": 0x42C010, "OUTPORT_STRIDE": 0x40},
    "RF_BQ": {"VELO_GENERAL": 0xC00000, "VELO_RP": 0xD00000, "RMA_GENERAL": 0xE00000},
    "RF_VELO": {"WCB_STATE": 0x1000000, "WCB_STATE_STRIDE": 0x1000, "WCB_TIMEOUT": 0x1100000, "TIMEOUT": 0x1201800,
                "COMPLETER": 0x1201808, "COUNT": 0x1201810, "DROPS": 0x1201818},
    "RF_RMA": {"WCB_TIMEOUT": 0x1500000, "WCB_ERRORS": 0x1500008, "WCB_ERRORS_2": 0x1500010,
               "INT_RETRIG_VEC": 0x1600040, "CONFIG": 0x1600080, "LOCK_BASE": 0x1600088, "LOCK_CONFIG": 0x1600090,
               "BQ_TIMEOUT": 0x1600098, "REQ_ERROR_CONTROL": 0x1601000, "REQ_HISTORY": 0x1601008,
               "RESP_ERROR_CONTROL": 0x1601028, "RESP_HISTORY": 0x1601030, "COMPL_ERROR_CONTROL": 0x1601058,
               "COMPL_HISTORY": 0x1601060, "PERF_CONTROL": 0x1601200, "PERF_REQ_PUTS": 0x1601208,
               "PERF_REQ_NOTI_IMM": 0x1601210, "PERF_REQ_GETS": 0x1601218, "PERF_REQ_LOCKS": 0x1601220,
               "PERF_REQ_ATU": 0x1601228, "PERF_REQ_READ": 0x1601240, "PERF_REQ_OUTPUT": 0x1601260,
               "PERF_REQ_NOTI": 0x1601298, "PERF_RESP": 0x16012A0, "PERF_RESP_LAST": 0x1601310,
               "PERF_COMPL": 0x1601318, "PERF_COMPL_LAST": 0x1601368},
}

# Error counters, low to high in each register (spec 8.3).
ERRORS = {
    "requester": {0x1601018: "exlreg cmdt exldis trans", 0x1601020: "bqt"},
    "responder": {0x1601040: "exlreg cmdt errcmd vpid", 0x1601048: "pdid exldis lock trans", 0x1601050: "bqt"},
    "completer": {0x1601070: "exlreg cmdt nosop hdrshrt", 0x1601078: "nodat fewdat moredat errcmd",
                  0x1601080: "vpid pdid exldis trans", 0x1601088: "bqt"},
}


def constants():
    print("# Derived from the specification by derive.py. Numbers are hexadecimal.")
    for unit, names in CONSTANTS.items():
        for name, value in names.items():
            print(f"constant EXTOLL_{unit}_{name} {value:x}")
    for unit, registers in ERRORS.items():
        for register, names in registers.items():
            for i, name in enumerate(names.split()):
                print(f"error {unit} {name} {register:x} {16 * i:x}")


def vectors():
    print("# Derived from the specification's bit tables by derive.py. Numbers are hexadecimal.")
    for op, alternatives, words in OPS:
        print(f"\n# {op} {' '.join(alternatives[0])} = words".replace("  ", " "))
        seen = set()
        for fields in alternatives:
            for row in rows(fields):
                if row not in seen:
                    seen.add(row)
                    out = words(dict(zip(fields, row)))
                    assert all(0 <= w <= M64 for w in out)
                    print(" ".join([op, *(f"{v:x}" for v in row), "=", *(f"{w:x}" for w in out)]))


for name, write in (("vectors.txt", vectors), ("constants.txt", constants)):
    with open(pathlib.Path(__file__).with_name(name), "w") as file, contextlib.redirect_stdout(file):
        write()
