// SPDX-License-Identifier: MIT OR Apache-2.0
/* Which transports UCX has here. */
#define _GNU_SOURCE
#include "ucx.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *set(const char *variable)
{
	const char *value = getenv(variable);

	return value && *value ? value : NULL;
}

/* Whether an interface has an address, or, as the loopback's, all of its network. */
static bool has(const struct ifaddrs *interface, const char *host)
{
	const struct sockaddr *at = interface->ifa_addr, *mask = interface->ifa_netmask;
	struct in6_addr six;
	struct in_addr four;

	if (!at)
		return false;
	if (at->sa_family == AF_INET && inet_pton(AF_INET, host, &four) == 1) {
		const in_addr_t own = ((const struct sockaddr_in *)at)->sin_addr.s_addr;
		const bool loops = interface->ifa_flags & IFF_LOOPBACK && mask;
		const in_addr_t bits = loops ? ((const struct sockaddr_in *)mask)->sin_addr.s_addr : INADDR_NONE;

		return !((own ^ four.s_addr) & bits);
	}
	return at->sa_family == AF_INET6 && inet_pton(AF_INET6, host, &six) == 1 &&
	       !memcmp(&((const struct sockaddr_in6 *)at)->sin6_addr, &six, sizeof(six));
}

/* The network device that has this address. */
static bool device_of(const char *host, char name[IF_NAMESIZE])
{
	struct ifaddrs *all, *found;

	if (getifaddrs(&all))
		return false;
	for (found = all; found && !has(found, host);)
		found = found->ifa_next;
	if (found)
		snprintf(name, IF_NAMESIZE, "%s", found->ifa_name);
	freeifaddrs(all);
	return found;
}

ucs_status_t ggas_ucx_context(const char *provider, const char *host, bool gpu, ucp_context_h *context)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
		.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
		.name = "ggas",
	};
	const bool tcp = !strcmp(provider, "tcp");
	char device[IF_NAMESIZE];
	ucp_config_t *config;
	ucs_status_t status = UCX(ucp_config_read)(NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	/* Where UCX_TLS is set, the provider is what it says. */
	status = UCX(ucp_config_modify)(config, "TLS", tcp && gpu ? "tcp,cuda_copy" : provider);
	if (status == UCS_OK && tcp && host && !set("UCX_NET_DEVICES") && device_of(host, device))
		status = UCX(ucp_config_modify)(config, "NET_DEVICES", device);
	/* The version whose structures are used, and not that of the headers, which may be newer than the library. */
	if (status == UCS_OK)
		status = UCX(ucp_init_version)(1, 13, &params, config, context);
	UCX(ucp_config_release)(config);
	return status;
}

bool ggas_ucx_reaches_gpus(ucp_context_h context)
{
	ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };

	return UCX(ucp_context_query)(context, &attr) == UCS_OK && attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA);
}

/* Whether a resource is of a network device that moves memory by itself. */
static bool is_rdma(const char *name)
{
	static const char *const transports[] = { "rc_", "dc_", "ud_", "srd/", "gga_" };

	for (size_t i = 0; i < sizeof(transports) / sizeof(*transports); i++) {
		if (!strncmp(name, transports[i], strlen(transports[i])))
			return true;
	}
	return false;
}

/*
 * Appends the names behind `-- ` in what UCX prints of its resources, such as `tcp/eth0`. Whether there are network devices
 * that move memory by themselves.
 */
static bool describe(ucp_context_h context, char *device, size_t room)
{
	char *text = NULL, *save = NULL;
	size_t len = 0, used = 0;
	FILE *stream = open_memstream(&text, &len);
	bool rdma = false;

	if (!stream)
		return false;
	UCX(ucp_context_print_info)(context, stream);
	fclose(stream);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *name = strstr(line, "resource ") ? strstr(line, "-- ") : NULL;
		const size_t name_len = name ? strcspn(name + 3, " ") : 0;

		rdma |= name_len && is_rdma(name + 3);
		if (!name_len || used + name_len + 2 > room)
			continue;
		used += (size_t)snprintf(device + used, room - used, "%s%.*s", used ? " " : "", (int)name_len, name + 3);
	}
	free(text);
	return rdma;
}

/* `gpu`: UCX reaches GPU memory here, if it is let. */
static void offer(struct ggas_offer *offer, const char *provider, bool *gpu)
{
	ucp_context_h context;
	bool rdma;

	memset(offer, 0, sizeof(*offer));
	snprintf(offer->name, sizeof(offer->name), "%s", provider);
	if (strlen(provider) >= sizeof(offer->name) || ggas_ucx_context(provider, NULL, false, &context) != UCS_OK)
		return;
	rdma = describe(context, offer->device, sizeof(offer->device));
	*gpu |= ggas_ucx_reaches_gpus(context);
	UCX(ucp_cleanup)(context);
	offer->can = GGAS_CAN_MESSAGES | GGAS_CAN_MEMORY | GGAS_CAN_NOTIFY | GGAS_CAN_SLEEP;
	/* Over one lane all messages of an endpoint come as they went; where there are several, long ones are spread. */
	if (!strcmp(provider, "tcp"))
		offer->can |= GGAS_CAN_ORDER;
	if (*gpu)
		offer->can |= GGAS_CAN_GPU;
	if (rdma)
		offer->can |= GGAS_CAN_RDMA;
	offer->write_max = 1ull << 30;
}

int ggas_ucx_list(struct ggas_offer *offers, int room)
{
	const char *named = set("UCX_TLS");
	bool gpu = false;

	if (room < 2)
		return UCS_ERR_BUFFER_TOO_SMALL;
	if (named) {
		offer(&offers[0], named, &gpu);
		return 1;
	}
	/* Where all find GPUs, TCP has what copies beside it. */
	offer(&offers[1], "all", &gpu);
	offer(&offers[0], "tcp", &gpu);
	return 2;
}
