// SPDX-License-Identifier: GPL-2.0-only
/*
 * /sys/class/extoll/extollN/ with its counters/ and registers/: what the card is, what it counted, and registers that
 * are management's. One number to a file; Documentation/ABI has the list.
 */

#include <linux/kstrtox.h>
#include <linux/sysfs.h>

#include "extoll.h"

/* A field of a register. */
struct extoll_attribute {
	struct device_attribute attr;
	u32 offset;
	u8 shift;
	u8 bits;
	bool hex;
	bool kept;	/* the card leaves it as it was written */
	u64 most;	/* that may be written; 0: what fits */
	int (*may_write)(struct extoll_card *card);	/* NULL: always */
};

static u64 bits_of(const struct extoll_attribute *field)
{
	return GENMASK_ULL(field->shift + field->bits - 1, field->shift);
}

/* Of a register, which may hold all ones: the version never does. */
static int register_read(struct extoll_card *card, u32 offset, u64 *value)
{
	*value = extoll_rf_read(card, offset);
	return *value == ~0ull ? extoll_card_there(card, extoll_rf_read(card, EXTOLL_RF_INFO_DRIVER)) : 0;
}

static ssize_t field_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const struct extoll_attribute *field = container_of(attr, struct extoll_attribute, attr);
	struct extoll_card *card = container_of(dev, struct extoll_card, dev);
	u64 value;
	int err;

	err = extoll_enter(card);	/* not while it is reset: registers read as ones then */
	if (err)
		return err;
	err = register_read(card, field->offset, &value);
	extoll_leave(card);
	if (err)
		return err;
	return sysfs_emit(buf, field->hex ? "%#llx\n" : "%llu\n", (value & bits_of(field)) >> field->shift);
}

/* The other bits of the register stay. That the card does not take the value is an error. */
static int field_write(struct extoll_card *card, const struct extoll_attribute *field, u64 value)
{
	u64 mask = bits_of(field), now;
	int err = field->may_write ? field->may_write(card) : 0;

	if (!err)
		err = register_read(card, field->offset, &now);
	if (err)
		return err;
	value <<= field->shift;
	extoll_rf_write(card, field->offset, (now & ~mask) | value);
	err = register_read(card, field->offset, &now);
	return !err && field->kept && (now & mask) != value ? -EIO : err;
}

/* Who may open the file may have passed it on: whoever writes needs the right. */
static ssize_t field_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	const struct extoll_attribute *field = container_of(attr, struct extoll_attribute, attr);
	struct extoll_card *card = container_of(dev, struct extoll_card, dev);
	u64 value;
	int err;

	if (!extoll_privileged())
		return -EPERM;
	err = kstrtou64(buf, 0, &value);
	if (err)
		return err;
	if (value > (field->most ?: bits_of(field) >> field->shift))
		return -ERANGE;
	err = extoll_enter(card);
	if (err)
		return err;
	mutex_lock(&card->registers_lock);
	err = field_write(card, field, value);
	mutex_unlock(&card->registers_lock);
	extoll_leave(card);
	return err ?: count;
}

/* Ports, and who sends to them, know the node by its id. Nobody opens one while the network is not configured. */
static int node_may_change(struct extoll_card *card)
{
	u64 state;
	u32 ports;
	int err = register_read(card, EXTOLL_RF_INFO_NETWORK_STATE, &state);

	if (err)
		return err;
	spin_lock(&card->port_lock);
	ports = card->ports;
	spin_unlock(&card->port_lock);
	return ports || state == EXTOLL_NETWORK_CONFIGURED ? -EBUSY : 0;
}

#define FIELD(name_, offset_, shift_, bits_, hex_) \
	static struct extoll_attribute attr_##name_ = { \
		.attr = __ATTR(name_, 0444, field_show, NULL), \
		.offset = (offset_), .shift = (shift_), .bits = (bits_), .hex = (hex_), \
	}
#define NUMBER(name, offset, shift, bits) FIELD(name, offset, shift, bits, false)
/* Root may write it. */
#define SETTING(name_, offset_, shift_, bits_, ...) \
	static struct extoll_attribute attr_##name_ = { \
		.attr = __ATTR(name_, 0644, field_show, field_store), \
		.offset = (offset_), .shift = (shift_), .bits = (bits_), __VA_ARGS__ \
	}
#define KEPT(name, offset, shift, bits) SETTING(name, offset, shift, bits, .kept = true)
#define WORD(name, offset) SETTING(name, offset, 0, 64, .kept = true, .hex = true)
#define ERROR_COUNT(name, reg, field) \
	NUMBER(name, EXTOLL_RF_RMA_##reg, EXTOLL_##field##_SHIFT, EXTOLL_ERROR_COUNT_BITS)
#define LINK(n) \
	NUMBER(link##n##_ready, EXTOLL_RF_LINK_STATUS + (n) * EXTOLL_RF_LINK_STRIDE, \
	       EXTOLL_LINK_READY_SHIFT, EXTOLL_LINK_READY_BITS)

FIELD(driver, EXTOLL_RF_INFO_DRIVER, 0, 32, true);
FIELD(guid, EXTOLL_RF_INFO_NODE, EXTOLL_INFO_GUID_SHIFT, EXTOLL_INFO_GUID_BITS, true);
SETTING(node, EXTOLL_RF_INFO_NODE, EXTOLL_INFO_NODE_SHIFT, EXTOLL_INFO_NODE_BITS,
	.kept = true, .may_write = node_may_change);
SETTING(network_state, EXTOLL_RF_INFO_NETWORK_STATE, 0, 64, .kept = true, .most = EXTOLL_NETWORK_STOPPED);
LINK(0);
LINK(1);
LINK(2);
LINK(3);
LINK(4);
LINK(5);
LINK(6);

static ssize_t state_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct extoll_card *card = container_of(dev, struct extoll_card, dev);
	static const char * const names[] = { "live", "failed", "gone" };

	return sysfs_emit(buf, "%s\n", names[READ_ONCE(card->state)]);
}
static DEVICE_ATTR_RO(state);

static ssize_t ports_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct extoll_card *card = container_of(dev, struct extoll_card, dev);

	return sysfs_emit(buf, "%u\n", READ_ONCE(card->ports));
}
static DEVICE_ATTR_RO(ports);

/* Lines `trigger count` of the system notifications handled (spec 8.4). */
static ssize_t notifications_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct extoll_card *card = container_of(dev, struct extoll_card, dev);
	ssize_t at = 0;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(card->snq.handled); i++)
		if (card->snq.handled[i])
			at += sysfs_emit_at(buf, at, "%u %llu\n", i, card->snq.handled[i]);
	return at;
}
static DEVICE_ATTR_RO(notifications);

static struct attribute *identity[] = {
	&attr_driver.attr.attr, &attr_guid.attr.attr, &attr_node.attr.attr,
	&attr_network_state.attr.attr, &dev_attr_state.attr, &dev_attr_ports.attr,
	&dev_attr_notifications.attr,
	&attr_link0_ready.attr.attr, &attr_link1_ready.attr.attr, &attr_link2_ready.attr.attr,
	&attr_link3_ready.attr.attr, &attr_link4_ready.attr.attr, &attr_link5_ready.attr.attr,
	&attr_link6_ready.attr.attr,
	NULL
};

ERROR_COUNT(requester_exlreg, REQ_ERRORS, REQ_EXLREG);
ERROR_COUNT(requester_command, REQ_ERRORS, REQ_CMDT);
ERROR_COUNT(requester_excell_disabled, REQ_ERRORS, REQ_EXLDIS);
ERROR_COUNT(requester_translation, REQ_ERRORS, REQ_TRANS);
ERROR_COUNT(requester_queue_timeout, REQ_ERRORS_2, REQ_BQT);
ERROR_COUNT(responder_exlreg, RESP_ERRORS, RESP_EXLREG);
ERROR_COUNT(responder_command, RESP_ERRORS, RESP_CMDT);
ERROR_COUNT(responder_error_command, RESP_ERRORS, RESP_ERRCMD);
ERROR_COUNT(responder_vpid, RESP_ERRORS, RESP_VPID);
ERROR_COUNT(responder_protection, RESP_ERRORS_2, RESP_PDID);
ERROR_COUNT(responder_excell_disabled, RESP_ERRORS_2, RESP_EXLDIS);
ERROR_COUNT(responder_lock, RESP_ERRORS_2, RESP_LOCK);
ERROR_COUNT(responder_translation, RESP_ERRORS_2, RESP_TRANS);
ERROR_COUNT(responder_queue_timeout, RESP_ERRORS_3, RESP_BQT);
ERROR_COUNT(completer_exlreg, COMPL_ERRORS, COMPL_EXLREG);
ERROR_COUNT(completer_command, COMPL_ERRORS, COMPL_CMDT);
ERROR_COUNT(completer_no_start, COMPL_ERRORS, COMPL_NOSOP);
ERROR_COUNT(completer_short_header, COMPL_ERRORS, COMPL_HDRSHRT);
ERROR_COUNT(completer_no_data, COMPL_ERRORS_2, COMPL_NODAT);
ERROR_COUNT(completer_few_data, COMPL_ERRORS_2, COMPL_FEWDAT);
ERROR_COUNT(completer_more_data, COMPL_ERRORS_2, COMPL_MOREDAT);
ERROR_COUNT(completer_error_command, COMPL_ERRORS_2, COMPL_ERRCMD);
ERROR_COUNT(completer_vpid, COMPL_ERRORS_3, COMPL_VPID);
ERROR_COUNT(completer_protection, COMPL_ERRORS_3, COMPL_PDID);
ERROR_COUNT(completer_excell_disabled, COMPL_ERRORS_3, COMPL_EXLDIS);
ERROR_COUNT(completer_translation, COMPL_ERRORS_3, COMPL_TRANS);
ERROR_COUNT(completer_queue_timeout, COMPL_ERRORS_4, COMPL_BQT);
NUMBER(puts_byte, EXTOLL_RF_RMA_PERF_REQ_PUTS, 32, 32);
NUMBER(puts_quadword, EXTOLL_RF_RMA_PERF_REQ_PUTS, 0, 32);
NUMBER(puts_notification, EXTOLL_RF_RMA_PERF_REQ_NOTI_IMM, 32, 32);
NUMBER(puts_immediate, EXTOLL_RF_RMA_PERF_REQ_NOTI_IMM, 0, 32);
NUMBER(gets_byte, EXTOLL_RF_RMA_PERF_REQ_GETS, 32, 32);
NUMBER(gets_quadword, EXTOLL_RF_RMA_PERF_REQ_GETS, 0, 32);
NUMBER(requester_notifications, EXTOLL_RF_RMA_PERF_REQ_NOTI, 0, 32);
NUMBER(requester_interrupts, EXTOLL_RF_RMA_PERF_REQ_NOTI, 32, 32);
NUMBER(smfu_sent_loads, EXTOLL_RF_SMFU_SENT_NP, 0, EXTOLL_SMFU_COUNTER_BITS);
NUMBER(smfu_sent_stores, EXTOLL_RF_SMFU_SENT_P, 0, EXTOLL_SMFU_COUNTER_BITS);
NUMBER(smfu_received_loads, EXTOLL_RF_SMFU_RCVD_NP, 0, EXTOLL_SMFU_COUNTER_BITS);
NUMBER(smfu_received_stores, EXTOLL_RF_SMFU_RCVD_P, 0, EXTOLL_SMFU_COUNTER_BITS);
NUMBER(velo_sent, EXTOLL_RF_VELO_COUNT, 32, 32);
NUMBER(velo_received, EXTOLL_RF_VELO_COUNT, 0, 32);
NUMBER(velo_dropped_disabled, EXTOLL_RF_VELO_DROPS, 32, 32);
NUMBER(velo_dropped_descriptor, EXTOLL_RF_VELO_DROPS, 0, 32);

static struct attribute *counters[] = {
	&attr_requester_exlreg.attr.attr, &attr_requester_command.attr.attr,
	&attr_requester_excell_disabled.attr.attr, &attr_requester_translation.attr.attr,
	&attr_requester_queue_timeout.attr.attr,
	&attr_responder_exlreg.attr.attr, &attr_responder_command.attr.attr,
	&attr_responder_error_command.attr.attr, &attr_responder_vpid.attr.attr,
	&attr_responder_protection.attr.attr, &attr_responder_excell_disabled.attr.attr,
	&attr_responder_lock.attr.attr, &attr_responder_translation.attr.attr,
	&attr_responder_queue_timeout.attr.attr,
	&attr_completer_exlreg.attr.attr, &attr_completer_command.attr.attr,
	&attr_completer_no_start.attr.attr, &attr_completer_short_header.attr.attr,
	&attr_completer_no_data.attr.attr, &attr_completer_few_data.attr.attr,
	&attr_completer_more_data.attr.attr, &attr_completer_error_command.attr.attr,
	&attr_completer_vpid.attr.attr, &attr_completer_protection.attr.attr,
	&attr_completer_excell_disabled.attr.attr, &attr_completer_translation.attr.attr,
	&attr_completer_queue_timeout.attr.attr,
	&attr_puts_byte.attr.attr, &attr_puts_quadword.attr.attr,
	&attr_puts_notification.attr.attr, &attr_puts_immediate.attr.attr,
	&attr_gets_byte.attr.attr, &attr_gets_quadword.attr.attr,
	&attr_requester_notifications.attr.attr, &attr_requester_interrupts.attr.attr,
	&attr_smfu_sent_loads.attr.attr, &attr_smfu_sent_stores.attr.attr,
	&attr_smfu_received_loads.attr.attr, &attr_smfu_received_stores.attr.attr,
	&attr_velo_sent.attr.attr, &attr_velo_received.attr.attr,
	&attr_velo_dropped_disabled.attr.attr, &attr_velo_dropped_descriptor.attr.attr,
	NULL
};

/* What the specification leaves to management (spec 8.2); time limits, which the driver sets when the card starts. */
#define SCRATCHPAD(n) \
	WORD(scratchpad##n, EXTOLL_RF_INFO_SCRATCHPAD + (n) * EXTOLL_RF_INFO_SCRATCHPAD_STRIDE)

WORD(management, EXTOLL_RF_INFO_MANAGEMENT);
WORD(ip_address0, EXTOLL_RF_INFO_IP_ADDRESS);
WORD(ip_address1, EXTOLL_RF_INFO_IP_ADDRESS + EXTOLL_RF_INFO_IP_ADDRESS_STRIDE);
SCRATCHPAD(4);
SCRATCHPAD(5);
SCRATCHPAD(6);
SCRATCHPAD(7);
KEPT(timer_period, EXTOLL_RF_INFO_TIMER, EXTOLL_TIMER_PERIOD_SHIFT, EXTOLL_TIMER_PERIOD_BITS);
KEPT(timer_one_shot, EXTOLL_RF_INFO_TIMER, EXTOLL_TIMER_ONE_SHOT_SHIFT, EXTOLL_TIMER_ONE_SHOT_BITS);
/* A timer that fires once is off again at once, or later. */
SETTING(timer_enable, EXTOLL_RF_INFO_TIMER, EXTOLL_TIMER_ENABLE_SHIFT, EXTOLL_TIMER_ENABLE_BITS);
KEPT(rma_wcb_timeout, EXTOLL_RF_RMA_WCB_TIMEOUT, EXTOLL_WCB_TIMEOUT_VALUE_SHIFT, EXTOLL_WCB_TIMEOUT_VALUE_BITS);
KEPT(rma_queue_timeout, EXTOLL_RF_RMA_BQ_TIMEOUT, 0, 32);
KEPT(velo_wcb_timeout, EXTOLL_RF_VELO_WCB_TIMEOUT, EXTOLL_WCB_TIMEOUT_VALUE_SHIFT, EXTOLL_WCB_TIMEOUT_VALUE_BITS);
KEPT(velo_timeout, EXTOLL_RF_VELO_TIMEOUT, EXTOLL_VELO_TIMEOUT_VALUE_SHIFT, EXTOLL_VELO_TIMEOUT_VALUE_BITS);
KEPT(smfu_timeout, EXTOLL_RF_SMFU_TIMEOUT_CONTROL, EXTOLL_SMFU_TIMEOUT_SHIFT, EXTOLL_SMFU_TIMEOUT_BITS);

/* Error counters of a unit: 1 clears them. Whether the card takes the bit back is not told, so it is taken back. */
static ssize_t clear_store(struct device *dev, struct device_attribute *attr, const char *buf, size_t count)
{
	const struct extoll_attribute *control = container_of(attr, struct extoll_attribute, attr);
	const struct extoll_attribute bit = {
		.offset = control->offset, .shift = EXTOLL_ERROR_CLEAR_COUNTS_SHIFT,
		.bits = EXTOLL_ERROR_CLEAR_COUNTS_BITS,
	};
	struct extoll_card *card = container_of(dev, struct extoll_card, dev);
	u64 value;
	int err;

	if (!extoll_privileged())
		return -EPERM;
	if (kstrtou64(buf, 0, &value) || value != 1)
		return -EINVAL;
	err = extoll_enter(card);
	if (err)
		return err;
	mutex_lock(&card->registers_lock);
	err = field_write(card, &bit, 1) ?: field_write(card, &bit, 0);
	mutex_unlock(&card->registers_lock);
	extoll_leave(card);
	return err ?: count;
}

#define CLEAR(name_, offset_) \
	static struct extoll_attribute attr_##name_ = { \
		.attr = __ATTR(name_, 0200, NULL, clear_store), .offset = (offset_), \
	}

CLEAR(clear_requester_errors, EXTOLL_RF_RMA_REQ_ERROR_CONTROL);
CLEAR(clear_responder_errors, EXTOLL_RF_RMA_RESP_ERROR_CONTROL);
CLEAR(clear_completer_errors, EXTOLL_RF_RMA_COMPL_ERROR_CONTROL);

static struct attribute *registers[] = {
	&attr_management.attr.attr, &attr_ip_address0.attr.attr, &attr_ip_address1.attr.attr,
	&attr_scratchpad4.attr.attr, &attr_scratchpad5.attr.attr, &attr_scratchpad6.attr.attr,
	&attr_scratchpad7.attr.attr,
	&attr_timer_period.attr.attr, &attr_timer_one_shot.attr.attr, &attr_timer_enable.attr.attr,
	&attr_rma_wcb_timeout.attr.attr, &attr_rma_queue_timeout.attr.attr,
	&attr_velo_wcb_timeout.attr.attr, &attr_velo_timeout.attr.attr, &attr_smfu_timeout.attr.attr,
	&attr_clear_requester_errors.attr.attr, &attr_clear_responder_errors.attr.attr,
	&attr_clear_completer_errors.attr.attr,
	NULL
};

static const struct attribute_group identity_group = { .attrs = identity };
static const struct attribute_group counters_group = { .name = "counters", .attrs = counters };
static const struct attribute_group registers_group = { .name = "registers", .attrs = registers };

const struct attribute_group *extoll_groups[] = { &identity_group, &counters_group, &registers_group, NULL };
