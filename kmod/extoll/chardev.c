// SPDX-License-Identifier: GPL-2.0-only
/* /dev/extollN: files, and the calls of uapi/extoll/ioctl.h. */

#include <linux/capability.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/poll.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../common/quota.h"
#include "compat.h"
#include "extoll.h"

#define MINORS 64

static dev_t extoll_devt;

static char *extoll_devnode(EXTOLL_DEVNODE_CONST struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0660;	/* the udev rule gives it to group extoll */
	return NULL;
}

struct class extoll_class = { .name = "extoll", .devnode = extoll_devnode };

/* Registers and physical addresses lead to all memory: not where Linux keeps that even from root. */
bool extoll_privileged(void)
{
	return (extoll_trusted || capable(CAP_SYS_RAWIO)) && !security_locked_down(LOCKDOWN_PCI_ACCESS);
}

static int extoll_open(struct inode *inode, struct file *filp)
{
	struct extoll_card *card = container_of(inode->i_cdev, struct extoll_card, cdev);
	struct extoll_file *file;
	int err;

	file = kvzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file)
		return -ENOMEM;
	file->card = card;
	file->filp = filp;
	file->privileged = extoll_privileged();
	file->protection = extoll_protection(extoll_outer_user());
	file->user = extoll_quota_user();
	kref_init(&file->held);
	mutex_init(&file->lock);
	filp->private_data = file;
	nonseekable_open(inode, filp);
	err = extoll_enter(card);
	if (err) {
		kvfree(file);
		return err;
	}
	mutex_lock(&card->files_lock);
	list_add(&file->node, &card->files);
	mutex_unlock(&card->files_lock);
	extoll_leave(card);
	return 0;
}

static void file_free(struct kref *held)
{
	struct extoll_file *file = container_of(held, struct extoll_file, held);

	kfree(file->port);
	kvfree(file);
}

/*
 * Gives back all that the file holds of the card, with nobody inside the file's calls. The card may take its time, and
 * the lock is the file's own: nobody else waits, but for a reset.
 */
static void file_kill(struct extoll_file *file)
{
	struct extoll_card *card = file->card;
	u32 i;

	lockdep_assert_held(&file->lock);
	if (file->port)
		extoll_port_kill(file->port);
	extoll_window_close(file, true);
	for (i = 0; i < file->buffers; i++)
		dma_free_pages(&card->pdev->dev, file->buffer[i].bytes, file->buffer[i].pages,
			       file->buffer[i].dma, DMA_BIDIRECTIONAL);
	file->buffers = 0;
}

static int extoll_release(struct inode *inode, struct file *filp)
{
	struct extoll_file *file = filp->private_data;
	struct extoll_card *card = file->card;

	mutex_lock(&file->lock);
	/* After removal the port is dead and nothing touches the card. */
	file_kill(file);
	file->filp = NULL;
	mutex_unlock(&file->lock);
	/* Not before: a reset has to find it, and to wait. */
	mutex_lock(&card->files_lock);
	list_del(&file->node);
	mutex_unlock(&card->files_lock);
	kref_put(&file->held, file_free);
	return 0;
}

/* A file that this walk has not been to, held; NULL after the last one. Those it has been to are at the list's end. */
static struct extoll_file *file_next(struct extoll_card *card)
{
	struct extoll_file *file;

	mutex_lock(&card->files_lock);
	file = list_first_entry_or_null(&card->files, struct extoll_file, node);
	if (file && file->walk == card->walk)
		file = NULL;
	if (file) {
		file->walk = card->walk;
		list_move_tail(&file->node, &card->files);
		kref_get(&file->held);
	}
	mutex_unlock(&card->files_lock);
	return file;
}

/* Nobody opens files meanwhile. One that is being closed is waited for, and has nothing then. */
static void files_each(struct extoll_card *card, void (*what)(struct extoll_file *file))
{
	struct extoll_file *file;

	card->walk++;
	while ((file = file_next(card))) {
		mutex_lock(&file->lock);
		if (file->filp)
			what(file);
		mutex_unlock(&file->lock);
		kref_put(&file->held, file_free);
	}
}

/* Reset or removal: user mappings first, so that nobody sees freed memory or another's registers. */
void extoll_files_kill(struct extoll_card *card)
{
	files_each(card, extoll_mappings_kill);
	files_each(card, file_kill);
}

static int call_info(struct extoll_file *file, void *data)
{
	struct extoll_card *card = file->card;
	struct extoll_info *arg = data;
	u64 state = extoll_rf_read(card, EXTOLL_RF_INFO_NETWORK_STATE);
	int err = extoll_card_there(card, state);

	if (err)
		return err;
	*arg = (struct extoll_info){
		.abi_version = EXTOLL_ABI_VERSION,
		.flags = file->privileged ? EXTOLL_INFO_PRIVILEGED : 0,
		.node = EXTOLL_GET(extoll_rf_read(card, EXTOLL_RF_INFO_NODE), EXTOLL_INFO_NODE),
		.network_state = state,
		.ports = EXTOLL_VPID_LAST_USER + 1,
		.fragment_bytes = EXTOLL_FRAGMENT,
		.command_bytes = EXTOLL_MAX_TRANSFER,
		.window_intervals = card->window.target ? EXTOLL_WINDOW_NODES : 0,
		.window_bytes = card->window.target ? card->window_bytes - EXTOLL_SMFU_RRA_BYTES : 0,
		.target_bytes = card->window.target ? EXTOLL_TARGET_BYTES : 0,
	};
	return 0;
}

static int call_port_open(struct extoll_file *file, void *data)
{
	struct extoll_port *port;
	int err = -EBUSY;

	if (mutex_lock_interruptible(&file->lock))
		return -EINTR;
	if (!file->port) {
		port = extoll_port_open(file, data);
		err = PTR_ERR_OR_ZERO(port);
		if (!err)
			smp_store_release(&file->port, port);	/* to extoll_file_port() */
	}
	mutex_unlock(&file->lock);
	return err;
}

/* The port of the file, which lasts as long as the caller is inside. */
static struct extoll_port *port_of(struct extoll_file *file)
{
	struct extoll_port *port = extoll_file_port(file);

	if (!port)
		return ERR_PTR(-ENXIO);
	return port->dead ? ERR_PTR(-EIO) : port;
}

static int call_register(struct extoll_file *file, void *data)
{
	struct extoll_port *port = port_of(file);

	return IS_ERR(port) ? PTR_ERR(port) : extoll_register(port, data);
}

/* The caller will never know the region's address. */
static void undo_register(struct extoll_file *file, void *data)
{
	const struct extoll_register *arg = data;
	struct extoll_unregister end = { .nla = arg->nla };
	struct extoll_port *port = port_of(file);

	if (!IS_ERR(port))
		extoll_unregister(port, &end);
}

static int call_unregister(struct extoll_file *file, void *data)
{
	struct extoll_port *port = port_of(file);

	return IS_ERR(port) ? PTR_ERR(port) : extoll_unregister(port, data);
}

static int call_wait(struct extoll_file *file, void *data)
{
	struct extoll_port *port = port_of(file);

	return IS_ERR(port) ? PTR_ERR(port) : extoll_port_wait(port, data);
}

static int call_port_rights(struct extoll_file *file, void *data)
{
	struct extoll_port *port = port_of(file);
	int err;

	if (!file->privileged)
		return -EPERM;
	if (IS_ERR(port))
		return PTR_ERR(port);
	mutex_lock(&file->lock);
	err = extoll_port_rights(port, data);
	mutex_unlock(&file->lock);
	return err;
}

/* Not while it holds what it got by its rights. */
static int call_drop_rights(struct extoll_file *file, void *data)
{
	const struct extoll_drop_rights *arg = data;
	int err = -EBUSY;

	if (arg->flags || arg->reserved)
		return -EINVAL;
	mutex_lock(&file->lock);
	if (!file->port && !file->buffers && !extoll_window_of(file)) {
		file->privileged = false;
		err = 0;
	}
	mutex_unlock(&file->lock);
	return err;
}

static int call_rf_access(struct extoll_file *file, void *data)
{
	return file->privileged ? extoll_rf_access(file->card, data) : -EPERM;
}

static int call_window_open(struct extoll_file *file, void *data)
{
	return extoll_window_open(file, data);
}

static void undo_window_open(struct extoll_file *file, void *data)
{
	extoll_window_close(file, false);
}

static int call_window_close(struct extoll_file *file, void *data)
{
	const struct extoll_window_close *arg = data;

	return arg->flags || arg->reserved ? -EINVAL : extoll_window_close(file, false);
}

static int call_buffer_alloc(struct extoll_file *file, void *data)
{
	struct extoll_buffer_alloc *arg = data;
	struct extoll_buffer *buffer;
	int err = 0;

	if (!file->privileged)
		return -EPERM;
	if (!arg->bytes || arg->bytes > EXTOLL_BUFFER_MAX)
		return -EINVAL;
	mutex_lock(&file->lock);
	if (file->buffers == EXTOLL_BUFFERS) {
		err = -ENOSPC;
		goto out;
	}
	buffer = &file->buffer[file->buffers];
	buffer->bytes = PAGE_ALIGN(arg->bytes);
	buffer->pages = extoll_pages_alloc(&file->card->pdev->dev, buffer->bytes, &buffer->dma);
	if (!buffer->pages) {
		err = -ENOMEM;
		goto out;
	}
	arg->bus_address = buffer->dma;
	arg->map_offset = EXTOLL_MAP_BUFFER + (u64)file->buffers * EXTOLL_BUFFER_MAX;
	/* Pairs with map_buffer(): the buffer is complete. */
	smp_store_release(&file->buffers, file->buffers + 1);
out:
	mutex_unlock(&file->lock);
	return err;
}

struct extoll_call {
	unsigned int cmd;
	size_t least;	/* size of the structure's first version */
	int (*call)(struct extoll_file *file, void *data);
	void (*undo)(struct extoll_file *file, void *data);	/* when the result cannot be given back */
};

/* Sizes of first versions stay as they are when members are appended. */
#define CALL_UNDO(NAME, least, function, undo) \
	[_IOC_NR(EXTOLL_IOC_##NAME)] = { EXTOLL_IOC_##NAME, least, function, undo }
#define CALL(NAME, least, function) CALL_UNDO(NAME, least, function, NULL)

static const struct extoll_call calls[] = {
	CALL(INFO, 48, call_info),
	CALL(PORT_OPEN, 48, call_port_open),	/* the port stays; it goes with the file */
	CALL_UNDO(REGISTER, 40, call_register, undo_register),
	CALL(UNREGISTER, 16, call_unregister),
	CALL(WAIT, 24, call_wait),
	CALL(PORT_RIGHTS, 16, call_port_rights),
	CALL(RF_ACCESS, 24, call_rf_access),
	CALL_UNDO(WINDOW_OPEN, 168, call_window_open, undo_window_open),
	CALL(WINDOW_CLOSE, 8, call_window_close),
	CALL(BUFFER_ALLOC, 24, call_buffer_alloc),
	CALL(DROP_RIGHTS, 8, call_drop_rights),
};

static const struct extoll_call *call_of(unsigned int cmd)
{
	unsigned int nr = _IOC_NR(cmd);

	if (_IOC_TYPE(cmd) != EXTOLL_IOC_MAGIC || _IOC_DIR(cmd) != (_IOC_READ | _IOC_WRITE) ||
	    nr >= ARRAY_SIZE(calls))
		return NULL;
	return &calls[array_index_nospec(nr, ARRAY_SIZE(calls))];
}

static long extoll_ioctl(struct file *filp, unsigned int cmd, unsigned long address)
{
	struct extoll_file *file = filp->private_data;
	const struct extoll_call *call = call_of(cmd);
	void __user *user = (void __user *)address;
	size_t size = _IOC_SIZE(cmd), known;
	u64 data[sizeof(struct extoll_window_open) / sizeof(u64)] = {};
	int err;

	BUILD_BUG_ON(sizeof(data) < sizeof(struct extoll_port_open));
	if (!call)
		return -ENOTTY;
	known = _IOC_SIZE(call->cmd);
	if (size < call->least)
		return -EINVAL;
	err = copy_struct_from_user(data, known, user, size);
	if (err)
		return err;
	err = extoll_enter(file->card);
	if (err)
		return err;
	err = call->call(file, data);
	extoll_leave(file->card);
	/* Nobody waits for us here: a fault may take as long as a file system of the user's likes. */
	if (err || !copy_to_user(user, data, min(size, known)))
		return err;
	if (call->undo && !extoll_enter(file->card)) {
		call->undo(file, data);
		extoll_leave(file->card);
	}
	return -EFAULT;
}

static const struct file_operations extoll_fops = {
	.owner = THIS_MODULE,
	.open = extoll_open,
	.release = extoll_release,
	.unlocked_ioctl = extoll_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = extoll_mmap,
	.fadvise = extoll_fadvise,
	.poll = extoll_poll,
};

int extoll_chardev_add(struct extoll_card *card)
{
	int err;

	if (card->index >= MINORS)
		return -ENOSPC;
	cdev_init(&card->cdev, &extoll_fops);
	card->cdev.owner = THIS_MODULE;
	card->dev.devt = MKDEV(MAJOR(extoll_devt), card->index);
	err = dev_set_name(&card->dev, "extoll%d", card->index);
	return err ?: cdev_device_add(&card->cdev, &card->dev);
}

int extoll_chardev_init(void)
{
	int err = class_register(&extoll_class);

	if (err)
		return err;
	err = alloc_chrdev_region(&extoll_devt, 0, MINORS, "extoll");
	if (err)
		class_unregister(&extoll_class);
	return err;
}

void extoll_chardev_exit(void)
{
	unregister_chrdev_region(extoll_devt, MINORS);
	class_unregister(&extoll_class);
}
