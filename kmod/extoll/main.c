// SPDX-License-Identifier: GPL-2.0-only
/* Probe, removal, reset, and what happens when a card stops answering. */

#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/pm.h>
#include <linux/swiotlb.h>

#include "compat.h"
#include "extoll.h"

bool extoll_trusted;
module_param_named(trusted, extoll_trusted, bool, 0444);
MODULE_PARM_DESC(trusted, "Every user may do what needs CAP_SYS_RAWIO: for clusters that trust their users");

static DEFINE_IDA(extoll_indexes);

#define LOOK_EVERY HZ

/*
 * Begin to use the card; -ENODEV or -EIO when it is gone or failed. Until extoll_leave its memory and registers
 * stay; killing ports waits for all who are inside.
 */
int extoll_enter(struct extoll_card *card)
{
	if (likely(READ_ONCE(card->state) == EXTOLL_LIVE) && percpu_ref_tryget_live(&card->users))
		return 0;
	return READ_ONCE(card->state) == EXTOLL_GONE ? -ENODEV : -EIO;
}

void extoll_leave(struct extoll_card *card)
{
	percpu_ref_put(&card->users);
}

static void extoll_users_gone(struct percpu_ref *users)
{
	complete(&container_of(users, struct extoll_card, users)->idle);
}

/* Operations may begin. */
void extoll_card_live(struct extoll_card *card)
{
	reinit_completion(&card->idle);
	percpu_ref_reinit(&card->users);
	WRITE_ONCE(card->state, EXTOLL_LIVE);
}

static void extoll_wake_all(struct extoll_card *card)
{
	unsigned int vpid;

	for (vpid = 0; vpid < EXTOLL_VPIDS; vpid++)
		wake_up_all(&card->wait[vpid]);
}

/*
 * The card does not do what it must. Without bus mastering it reaches no memory, so whatever was given to it may be
 * taken back; only a reset or a new probe brings it back to life. Whoever calls frees memory next: so everyone takes
 * bus mastering away, also when a reset or removal has begun, or another caller was first and may not be there yet.
 */
void extoll_card_fail(struct extoll_card *card, const char *why)
{
	bool first = cmpxchg(&card->state, EXTOLL_LIVE, EXTOLL_FAILED) == EXTOLL_LIVE;

	pci_clear_master(card->pdev);
	/* Pairs with flush_pointless(). */
	smp_store_release(&card->cut_off, true);
	if (!first)
		return;
	dev_err(&card->pdev->dev, "%s: card cut off from memory; reset it or load the driver again\n", why);
	extoll_wake_all(card);
}

/* `value` of a register that never holds all ones: then the card has left the bus, and nobody told us yet. */
int extoll_card_there(struct extoll_card *card, u64 value)
{
	if (likely(value != ~0ull))
		return 0;
	extoll_card_fail(card, "registers read all ones");
	return -EIO;
}

/* A port has been opened: from now on the card is looked at. */
void extoll_card_watch(struct extoll_card *card)
{
	schedule_delayed_work(&card->look, round_jiffies_relative(LOOK_EVERY));
}

/* A card may leave the bus without a word. Then nothing wakes those who sleep for as long as it takes. */
static void extoll_look(struct work_struct *work)
{
	struct extoll_card *card = container_of(to_delayed_work(work), struct extoll_card, look);

	if (extoll_enter(card))
		return;
	if (!extoll_card_there(card, extoll_rf_read(card, EXTOLL_RF_INFO_DRIVER)) && READ_ONCE(card->ports))
		extoll_card_watch(card);
	extoll_leave(card);
}

/* No operation is inside and none begins; ports, regions and queues of all files go. */
static void extoll_card_quiet(struct extoll_card *card, enum extoll_state state)
{
	WRITE_ONCE(card->state, state);
	extoll_wake_all(card);
	if (!percpu_ref_is_dying(&card->users)) {
		percpu_ref_kill(&card->users);
		wait_for_completion(&card->idle);
	}
	cancel_delayed_work_sync(&card->look);
	extoll_files_kill(card);
}

static void extoll_card_release(struct device *dev)
{
	struct extoll_card *card = container_of(dev, struct extoll_card, dev);

	ida_free(&extoll_indexes, card->index);
	mtree_destroy(&card->nlas);
	percpu_ref_exit(&card->users);
	kvfree(card);
}

static struct extoll_card *extoll_card_new(struct pci_dev *pdev)
{
	struct extoll_card *card = kvzalloc(sizeof(*card), GFP_KERNEL);
	unsigned int vpid;

	if (!card)
		return NULL;
	init_completion(&card->idle);
	INIT_DELAYED_WORK(&card->look, extoll_look);
	if (percpu_ref_init(&card->users, extoll_users_gone, PERCPU_REF_INIT_DEAD | PERCPU_REF_ALLOW_REINIT,
			    GFP_KERNEL)) {
		kvfree(card);
		return NULL;
	}
	card->index = ida_alloc(&extoll_indexes, GFP_KERNEL);
	if (card->index < 0) {
		percpu_ref_exit(&card->users);
		kvfree(card);
		return NULL;
	}
	card->pdev = pdev;
	card->state = EXTOLL_FAILED;
	INIT_LIST_HEAD(&card->files);
	mutex_init(&card->registers_lock);
	mutex_init(&card->files_lock);
	mutex_init(&card->regions_lock);
	mutex_init(&card->gat_lock);
	mutex_init(&card->atu_lock);
	mutex_init(&card->smfu_lock);
	spin_lock_init(&card->port_lock);
	spin_lock_init(&card->window_lock);
	for (vpid = 0; vpid < EXTOLL_VPIDS; vpid++)
		init_waitqueue_head(&card->wait[vpid]);
	mt_init_flags(&card->nlas, MT_FLAGS_ALLOC_RANGE);
	device_initialize(&card->dev);
	card->dev.parent = &pdev->dev;
	card->dev.class = &extoll_class;
	card->dev.groups = extoll_groups;
	card->dev.release = extoll_card_release;
	return card;
}

/* The function as after power on, with its configuration: what it had under way is over. Under the device's lock. */
static int extoll_function_reset(struct pci_dev *pdev)
{
	int err;

	pci_save_state(pdev);
	err = __pci_reset_function_locked(pdev);
	pci_restore_state(pdev);
	if (err)
		dev_err(&pdev->dev, "no way to reset the card (%d), and it may have accesses to memory under way: see reset_method in sysfs\n",
			err);
	return err;
}

/*
 * The one way to a card that works, for probe, reset, sleep and bus errors: reset, quiet, and only then access to
 * memory. Whoever used the card before may have been unable to stop it, and freed the memory that it knows.
 */
static int extoll_bring_up(struct extoll_card *card, bool was_reset)
{
	struct pci_dev *pdev = card->pdev;
	int err;

	pci_clear_master(pdev);
	err = was_reset ? 0 : extoll_function_reset(pdev);
	if (err)
		return err;
	pci_save_state(pdev);	/* for a slot that is reset after an error: it comes back without bus mastering */
	err = extoll_card_clear(card);
	if (err)
		return err;
	extoll_vpids_rest(card);
	pci_set_master(pdev);
	WRITE_ONCE(card->cut_off, false);
	err = extoll_card_start(card);
	if (err)
		pci_clear_master(pdev);
	return err;
}

/* Registered memory is the process's and the card's at the same time: no copy of it will do. */
static int extoll_machine_check(struct pci_dev *pdev)
{
	if (!is_swiotlb_force_bounce(&pdev->dev))
		return 0;
	dev_err(&pdev->dev, "swiotlb=force gives devices copies of memory: start Linux without it\n");
	return -EOPNOTSUPP;
}

static int extoll_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct extoll_card *card;
	int err;

	if (pdev->revision > EXTOLL_PCI_REVISION) {
		dev_err(&pdev->dev, "PCI revision %#x is not supported\n", pdev->revision);
		return -ENODEV;
	}
	card = extoll_card_new(pdev);
	if (!card)
		return -ENOMEM;
	pci_set_drvdata(pdev, card);
	err = extoll_machine_check(pdev);
	if (err)
		goto err_put;
	err = pci_enable_device_mem(pdev);
	if (err)
		goto err_put;
	err = pci_request_mem_regions(pdev, "extoll");
	if (err)
		goto err_disable;
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(48));
	if (err)
		err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(32));
	if (err)
		goto err_regions;
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	err = extoll_map_bars(card);
	if (err)
		goto err_bars;
	err = extoll_card_memory(card);
	if (err)
		goto err_bars;
	err = extoll_snq_init(card);
	if (err)
		goto err_memory;
	err = extoll_bring_up(card, false);
	if (err)
		goto err_start;
	err = extoll_chardev_add(card);
	if (err)
		goto err_stop;
	dev_info(&pdev->dev, "extoll%d: node %llu, network state %llu, window %llu MiB\n", card->index,
		 EXTOLL_GET(extoll_rf_read(card, EXTOLL_RF_INFO_NODE), EXTOLL_INFO_NODE),
		 extoll_rf_read(card, EXTOLL_RF_INFO_NETWORK_STATE), card->window_bytes >> 20);
	return 0;

err_stop:
	extoll_card_stop(card);
	pci_clear_master(pdev);
err_start:
	extoll_smfu_free(card);
	extoll_snq_free(card);
err_memory:
	extoll_card_memory_free(card);
err_bars:
	extoll_unmap_bars(card);
err_regions:
	pci_release_mem_regions(pdev);
err_disable:
	pci_disable_device(pdev);
err_put:
	put_device(&card->dev);
	return err;
}

static void extoll_remove(struct pci_dev *pdev)
{
	struct extoll_card *card = pci_get_drvdata(pdev);

	cdev_device_del(&card->cdev, &card->dev);
	extoll_card_quiet(card, EXTOLL_GONE);
	extoll_card_stop(card);
	pci_clear_master(pdev);
	extoll_snq_free(card);
	extoll_smfu_free(card);
	extoll_card_memory_free(card);
	extoll_unmap_bars(card);
	pci_release_mem_regions(pdev);
	pci_disable_device(pdev);
	put_device(&card->dev);
}

/*
 * A reset, and sleep without power, forget all that the card knew: what ports held is freed, and their files only give
 * EIO.
 */
static void extoll_reset_prepare(struct pci_dev *pdev)
{
	struct extoll_card *card = pci_get_drvdata(pdev);

	extoll_card_quiet(card, EXTOLL_FAILED);
	extoll_card_stop(card);
	pci_clear_master(pdev);
}

static int extoll_restart(struct pci_dev *pdev, bool was_reset, const char *after)
{
	int err = extoll_bring_up(pci_get_drvdata(pdev), was_reset);

	if (err)
		dev_err(&pdev->dev, "card does not start after %s\n", after);
	return err;
}

static void extoll_reset_done(struct pci_dev *pdev)
{
	extoll_restart(pdev, true, "the reset");
}

/* Programs are frozen. The bus saves and restores the card's configuration. */
static int extoll_suspend(struct device *dev)
{
	extoll_reset_prepare(to_pci_dev(dev));
	return 0;
}

/* A card that was cut off may have kept its power, and what it has in mind: only a reset makes it forget. */
static int extoll_resume(struct device *dev)
{
	struct pci_dev *pdev = to_pci_dev(dev);
	struct extoll_card *card = pci_get_drvdata(pdev);

	if (!card->cut_off)
		return extoll_restart(pdev, false, "sleep");
	pci_save_state(pdev);
	return 0;
}

static DEFINE_SIMPLE_DEV_PM_OPS(extoll_sleep, extoll_suspend, extoll_resume);

static pci_ers_result_t extoll_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct extoll_card *card = pci_get_drvdata(pdev);

	extoll_card_fail(card, "PCI error");
	return state == pci_channel_io_perm_failure ? PCI_ERS_RESULT_DISCONNECT :
						      PCI_ERS_RESULT_NEED_RESET;
}

static pci_ers_result_t extoll_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);	/* before it no register answers */
	extoll_reset_prepare(pdev);
	return extoll_restart(pdev, true, "a bus error") ? PCI_ERS_RESULT_DISCONNECT : PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers extoll_errors = {
	.error_detected = extoll_error_detected,
	.slot_reset = extoll_slot_reset,
	.reset_prepare = extoll_reset_prepare,
	.reset_done = extoll_reset_done,
};

static const struct pci_device_id extoll_ids[] = {
	{ PCI_DEVICE(EXTOLL_PCI_VENDOR, EXTOLL_PCI_TOURMALET_1) },
	{ PCI_DEVICE(EXTOLL_PCI_VENDOR, EXTOLL_PCI_TOURMALET) },
	{ }
};
MODULE_DEVICE_TABLE(pci, extoll_ids);

static struct pci_driver extoll_driver = {
	.name = "extoll",
	.id_table = extoll_ids,
	.probe = extoll_probe,
	.remove = extoll_remove,
	.err_handler = &extoll_errors,
	.driver.pm = pm_sleep_ptr(&extoll_sleep),
};

static int __init extoll_init(void)
{
	int err = extoll_chardev_init();

	if (err)
		return err;
	err = pci_register_driver(&extoll_driver);
	if (err)
		extoll_chardev_exit();
	return err;
}

static void __exit extoll_exit(void)
{
	pci_unregister_driver(&extoll_driver);
	extoll_chardev_exit();
}

module_init(extoll_init);
module_exit(extoll_exit);

MODULE_DESCRIPTION("EXTOLL Tourmalet: user-level RMA, VELO and global address windows");
MODULE_LICENSE("GPL");
EXTOLL_IMPORT_DMA_BUF;
