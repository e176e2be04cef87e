/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libvelo2.so: names for what librma2.so does, so that a process has one node, whichever of the two it uses. */
#include "velo2.h"

velo2_ret_t rma2_velo2_open(velo2_port_t *port);
velo2_ret_t rma2_velo2_close(velo2_port_t *port);
velo2_nodeid_t rma2_velo2_get_nodeid(velo2_port_t *port);
velo2_vpid_t rma2_velo2_get_vpid(velo2_port_t *port);
velo2_ret_t rma2_velo2_connect(velo2_port_t *port, velo2_connection_t *connection, velo2_nodeid_t nodeid,
			       velo2_vpid_t vpid);
velo2_ret_t rma2_velo2_disconnect(velo2_port_t *port, velo2_connection_t *connection);
velo2_ret_t rma2_velo2_send(velo2_connection_t *connection, const void *message, unsigned int length, uint8_t tag,
			    uint8_t mtt);
velo2_ret_t rma2_velo2_recv(velo2_port_t *port, void *buffer, unsigned int size, uint32_t *length, uint32_t *source,
			    uint8_t *tag, uint8_t *mtt);
velo2_ret_t rma2_velo2_probe_recv(velo2_port_t *port, void *buffer, unsigned int size, uint32_t *length,
				  uint32_t *source, uint8_t *tag, uint8_t *mtt);
void rma2_velo2_serror(velo2_ret_t result, char *buf, int buflen);

velo2_ret_t velo2_open(velo2_port_t *port)
{
	return rma2_velo2_open(port);
}

velo2_ret_t velo2_close(velo2_port_t *port)
{
	return rma2_velo2_close(port);
}

velo2_nodeid_t velo2_get_nodeid(velo2_port_t *port)
{
	return rma2_velo2_get_nodeid(port);
}

velo2_vpid_t velo2_get_vpid(velo2_port_t *port)
{
	return rma2_velo2_get_vpid(port);
}

velo2_ret_t velo2_connect(velo2_port_t *port, velo2_connection_t *connection, velo2_nodeid_t nodeid, velo2_vpid_t vpid)
{
	return rma2_velo2_connect(port, connection, nodeid, vpid);
}

velo2_ret_t velo2_disconnect(velo2_port_t *port, velo2_connection_t *connection)
{
	return rma2_velo2_disconnect(port, connection);
}

velo2_ret_t velo2_send(velo2_connection_t *connection, const void *message, unsigned int length, uint8_t tag, uint8_t mtt)
{
	return rma2_velo2_send(connection, message, length, tag, mtt);
}

velo2_ret_t velo2_recv(velo2_port_t *port, void *buffer, unsigned int size, uint32_t *length, uint32_t *source,
		       uint8_t *tag, uint8_t *mtt)
{
	return rma2_velo2_recv(port, buffer, size, length, source, tag, mtt);
}

velo2_ret_t velo2_probe_recv(velo2_port_t *port, void *buffer, unsigned int size, uint32_t *length, uint32_t *source,
			     uint8_t *tag, uint8_t *mtt)
{
	return rma2_velo2_probe_recv(port, buffer, size, length, source, tag, mtt);
}

void velo2_serror(velo2_ret_t result, char *buf, int buflen)
{
	rma2_velo2_serror(result, buf, buflen);
}
