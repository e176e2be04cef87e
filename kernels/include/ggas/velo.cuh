/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Messages from kernels: up to 120 bytes into the mailbox of another port (spec 7).
 *
 *	__device__ int echo(ggas_velo *port)
 *	{
 *		gpu_velo_message message;
 *		if (int error = gpu_velo_receive(port, &message))
 *			return error;
 *		return gpu_velo_send(port, message.source, message.word, message.length, message.tag);
 *	}
 *
 * Sending. The message is stored to the requester page as one line; the card assembles
 * it. One WCB per VPID: sends of a port take turns. A full mailbox holds
 * back the card, which then rejects; sends, and polls of an empty mailbox, repeat what
 * was rejected. A kernel that waits for anything but messages, or ends, calls
 * gpu_velo_drain first. Each form takes a scope: in gpu_velo_send<ggas_scope::warp> all
 * threads call with the same arguments, one sends.
 *
 * Receiving. One thread at a time consumes a port's mailbox: by the kernel's design, or
 * between gpu_velo_lock and gpu_velo_unlock. Messages of one sender come in order.
 *
 * Ordering. A send is a release at system scope, a receive an acquire.
 *
 * Where. Kernels on the CPU executor, and over a card, store to the requester page. The
 * model cannot see a GPU's plain stores (design section 3): there a message goes through
 * a ring of slots in host memory that the model polls, and waits in it while a mailbox
 * holds the network back.
 *
 * Errors. GGAS_OK, GGAS_ERR_ARGUMENT (more than 120 bytes, a type above 3, no way to
 * send), GGAS_ERR_TIMEOUT (reported in ggas_velo.report), GGAS_ERR_NOTIFICATION (a
 * received message has the card's error bit).
 */
#ifndef GGAS_VELO_CUH
#define GGAS_VELO_CUH

#include "extoll/velo.h"
#include "extoll/wcb.h"
#include "vocab.h"

#include "impl/scope.h"

/* A port: a node and a VPID there. */
struct gpu_velo_peer {
	uint32_t node, vpid;
};

/* A received message; payload byte i is byte i of `word`. */
struct gpu_velo_message {
	uint64_t word[GGAS_VELO_WORDS - 1];
	gpu_velo_peer source;
	uint32_t length, tag, mtt;
	uint32_t error; /* the card's error bit */
};

#include "impl/velo_receive.h"
#include "impl/velo_send.h"

#endif /* GGAS_VELO_CUH */
