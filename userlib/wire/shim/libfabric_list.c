// SPDX-License-Identifier: MIT OR Apache-2.0
/* Which providers libfabric has here, and what an endpoint of each could do. */
#include "libfabric.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What every endpoint needs, of any provider if it is NULL. */
static struct fi_info *needs(const char *provider, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	/* fi_freeinfo() frees it. */
	hints->fabric_attr->prov_name = provider ? strdup(provider) : NULL;
	return hints;
}

/*
 * libfabric takes a name for a pattern: `tcp` also finds `tcp;ofi_rxm`. Of what it finds only the first of the
 * exact name is kept, and the list behind it.
 */
static struct fi_info *look(const char *provider, const char *host, uint64_t caps)
{
	struct fi_info *hints = needs(provider, caps), *found = NULL, *kept = NULL;
	uint64_t flags = host ? FI_SOURCE | FI_NUMERICHOST : 0;

	if (!hints)
		return NULL;
	if (!fi_getinfo(GGAS_LIBFABRIC_API, host, NULL, flags, hints, &found)) {
		const struct fi_info *info = found;

		while (info && strcmp(info->fabric_attr->prov_name, provider))
			info = info->next;
		kept = info ? fi_dupinfo(info) : NULL;
		fi_freeinfo(found);
	}
	fi_freeinfo(hints);
	return kept;
}

struct fi_info *ggas_libfabric_look(const char *provider, const char *host)
{
	struct fi_info *info = host ? look(provider, host, FI_MSG | FI_RMA) : NULL;

	/* Providers whose addresses are not the network's take no host. */
	return info ? info : look(provider, NULL, FI_MSG | FI_RMA);
}

/* Whether a queue of events of this provider has a descriptor to sleep on: it says so only when one is made. */
static int can_sleep(struct fi_info *info)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD };
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	int can = 0;

	if (fi_fabric(info->fabric_attr, &fabric, NULL))
		return 0;
	if (!fi_domain(fabric, info, &domain, NULL)) {
		if (!fi_cq_open(domain, &attr, &cq, NULL)) {
			can = 1;
			fi_close(&cq->fid);
		}
		fi_close(&domain->fid);
	}
	fi_close(&fabric->fid);
	return can;
}

static void describe(struct ggas_offer *offer)
{
	struct fi_info *info = ggas_libfabric_look(offer->name, NULL);
	struct fi_info *gpu;

	if (!info)
		return;
	offer->can = GGAS_CAN_MESSAGES | GGAS_CAN_MEMORY;
	if (info->domain_attr->cq_data_size >= sizeof(uint32_t))
		offer->can |= GGAS_CAN_NOTIFY;
	if (offer->can & GGAS_CAN_NOTIFY && !(~info->tx_attr->msg_order & (FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_WAW)) &&
	    info->tx_attr->iov_limit > 1)
		offer->can |= GGAS_CAN_ORDER;
	if (can_sleep(info))
		offer->can |= GGAS_CAN_SLEEP;
	gpu = look(offer->name, NULL, FI_MSG | FI_RMA | FI_HMEM);
	if (gpu) {
		offer->can |= GGAS_CAN_GPU;
		fi_freeinfo(gpu);
	}
	offer->write_max = info->ep_attr->max_msg_size;
	snprintf(offer->device, sizeof(offer->device), "%s", info->domain_attr->name ? info->domain_attr->name : "");
	fi_freeinfo(info);
}

/* Adds the providers of a list that are not there yet. */
static int collect(const struct fi_info *hints, struct ggas_offer *offers, int count, int room)
{
	struct fi_info *found;

	if (fi_getinfo(GGAS_LIBFABRIC_API, NULL, NULL, 0, hints, &found))
		return count;
	for (const struct fi_info *info = found; info && count < room; info = info->next) {
		const char *name = info->fabric_attr->prov_name;
		int i = 0;

		while (i < count && strcmp(offers[i].name, name))
			i++;
		if (i < count || strlen(name) >= sizeof(offers[i].name))
			continue;
		memset(&offers[count], 0, sizeof(*offers));
		strcpy(offers[count].name, name);
		count++;
	}
	fi_freeinfo(found);
	return count;
}

int ggas_libfabric_list(struct ggas_offer *offers, int room)
{
	struct fi_info *hints = needs(NULL, FI_MSG | FI_RMA);
	int count = hints ? collect(hints, offers, 0, room) : 0;

	if (hints)
		fi_freeinfo(hints);
	/* And those that do not fit, so that nobody wonders where they are. */
	count = collect(NULL, offers, count, room);
	for (int i = 0; i < count; i++)
		describe(&offers[i]);
	return count;
}
