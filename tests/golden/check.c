/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks the C encoders and decoders against vectors.txt. Compiled as C11, as
 * C++17 and, by nvcc, as CUDA: there the same functions also run on a GPU if
 * there is one.
 *
 * usage: check vectors.txt
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"

#define MAX_VECTORS 4096

struct vector {
	uint64_t arg[GOLDEN_MAX];
	uint64_t word[GOLDEN_MAX];
	int op;
	int line;
};

#define GOLDEN_NAME(name, arguments, words) { #name, arguments, words },
static const struct {
	const char *name;
	int arguments;
	int words;
} ops[] = { GOLDEN_OPS(GOLDEN_NAME) };

static struct vector vectors[MAX_VECTORS];
static int count;

static int find(const char *name)
{
	int op;

	for (op = 0; op < GOLDEN_OP_COUNT; op++)
		if (strcmp(ops[op].name, name) == 0)
			return op;
	return -1;
}

/* The numbers up to the end or "="; how many, or -1. */
static int numbers(uint64_t *to)
{
	int n = 0;
	char *end, *text;

	while ((text = strtok(NULL, " \n")) != NULL && strcmp(text, "=") != 0) {
		if (n == GOLDEN_MAX)
			return -1;
		to[n++] = strtoull(text, &end, 16);
		if (*end != '\0')
			return -1;
	}
	return n;
}

static int parse(char *text, int line)
{
	struct vector *v = &vectors[count];
	const char *name = strtok(text, " \n");

	if (name == NULL || name[0] == '#')
		return 0;
	v->op = find(name);
	v->line = line;
	if (v->op < 0 || count + 1 == MAX_VECTORS || numbers(v->arg) != ops[v->op].arguments ||
	    numbers(v->word) != ops[v->op].words) {
		fprintf(stderr, "line %d: cannot read this vector\n", line);
		return 1;
	}
	count++;
	return 0;
}

static int load(const char *path)
{
	char text[512];
	int failed = 0, line = 0;
	FILE *file = fopen(path, "r");

	if (file == NULL) {
		perror(path);
		return 1;
	}
	while (fgets(text, sizeof(text), file) != NULL)
		failed |= parse(text, ++line);
	fclose(file);
	return failed;
}

static int same(const struct vector *v, const char *what, const uint64_t *found,
		const uint64_t *expected, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (found[i] == expected[i])
			continue;
		fprintf(stderr, "line %d: %s: %s %d is %llx, expected %llx\n", v->line,
			ops[v->op].name, what, i, (unsigned long long)found[i],
			(unsigned long long)expected[i]);
		return 0;
	}
	return 1;
}

static int check_on_host(void)
{
	int i, failed = 0, seen[GOLDEN_OP_COUNT] = { 0 };

	for (i = 0; i < count; i++) {
		const struct vector *v = &vectors[i];
		uint64_t word[GOLDEN_MAX] = { 0 }, arg[GOLDEN_MAX];

		golden_words(v->op, v->arg, word);
		failed |= !same(v, "word", word, v->word, ops[v->op].words);
		memcpy(arg, v->arg, sizeof(arg));
		golden_arguments(v->op, v->word, arg);
		failed |= !same(v, "argument", arg, v->arg, ops[v->op].arguments);
		seen[v->op] = 1;
	}
	for (i = 0; i < GOLDEN_OP_COUNT; i++) {
		if (seen[i])
			continue;
		fprintf(stderr, "no vector for %s\n", ops[i].name);
		failed = 1;
	}
	return failed;
}

#ifdef __CUDACC__
__global__ void encode(const struct vector *in, struct vector *out, int n)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n) {
		out[i] = in[i];
		golden_words(in[i].op, in[i].arg, out[i].word);
		golden_arguments(in[i].op, in[i].word, out[i].arg);
	}
}

static int check_on_gpu(void)
{
	static struct vector result[MAX_VECTORS];
	struct vector *in, *out;
	int i, gpus = 0, failed = 0;
	const size_t bytes = sizeof(struct vector) * (size_t)count;

	if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
		printf("no GPU: device code compiled, not run\n");
		return 0;
	}
	if (cudaMalloc(&in, bytes) != cudaSuccess || cudaMalloc(&out, bytes) != cudaSuccess ||
	    cudaMemcpy(in, vectors, bytes, cudaMemcpyHostToDevice) != cudaSuccess) {
		fprintf(stderr, "GPU: %s\n", cudaGetErrorString(cudaGetLastError()));
		return 1;
	}
	encode<<<(count + 127) / 128, 128>>>(in, out, count);
	if (cudaMemcpy(result, out, bytes, cudaMemcpyDeviceToHost) != cudaSuccess) {
		fprintf(stderr, "GPU: %s\n", cudaGetErrorString(cudaGetLastError()));
		return 1;
	}
	for (i = 0; i < count; i++) {
		const struct vector *v = &vectors[i];

		failed |= !same(v, "GPU word", result[i].word, v->word, ops[v->op].words);
		failed |= !same(v, "GPU argument", result[i].arg, v->arg, ops[v->op].arguments);
	}
	printf("%d vectors on a GPU\n", count);
	return failed;
}
#else
static int check_on_gpu(void)
{
	return 0;
}
#endif

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: check vectors.txt\n");
		return 2;
	}
	if (load(argv[1]) || check_on_host() || check_on_gpu())
		return 1;
	printf("%d vectors\n", count);
	return 0;
}
