// An op and a delegate that only certain versions of TensorFlow Lite can run.  Flags: -DSTRIDE=96 or 104 (the size of
// tensors before TensorFlow 2.5), -DOLD_NODE (nodes without `intermediates`, as before 2.0).
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef STRIDE
#define STRIDE 112
#endif
#define EXPORT __attribute__((visibility("default")))

typedef struct Ints {
  int size, data[];
} Ints;

typedef struct Tensor {
  int type;
  union { float *f; void *raw; } data;
  Ints *dims;
  char between[16];
  size_t bytes;
  char rest[STRIDE - 48];
} Tensor;

typedef struct Node {
  Ints *inputs, *outputs;
#ifndef OLD_NODE
  Ints *intermediates;
#endif
  Ints *temporaries;
  void *user_data;
} Node;

typedef struct Context {
  size_t tensors_size;
  int (*get_plan)(struct Context *, Ints **);
  Tensor *tensors;
  void *impl;
  int (*resize)(struct Context *, Tensor *, Ints *);
  void (*report)(struct Context *, const char *, ...);
  char more[14 * sizeof(void *)];
  Tensor *(*get_tensor)(struct Context *, int);       // of microcontrollers
} Context;

static char option[64];

// Calls a virtual function of a tflite::Subgraph, after it reads one of its vectors.
static int use_impl(Context *c) {
  void **subgraph = c->impl;
  if (subgraph[3] == subgraph[4]) return 0;
  return ((int (*)(void *))subgraph[0])(subgraph);
}

static int at(Context *c, const char *stage) {
  size_t length = strlen(stage);
  if (strncmp(option, stage, length) != 0) return 0;
  if (strcmp(option + length, "-impl") == 0) return use_impl(c);
  if (strcmp(option + length, "-micro") == 0) return c->get_tensor(c, 0)->type;
  if (strcmp(option + length, "-wild") == 0) return *(volatile int *)(uintptr_t)0x700000000000;
  return 0;
}

static void *Init(Context *c, const char *buffer, size_t length) {
  at(c, "init");
  return NULL;
}

static int Prepare(Context *c, Node *n) {
  at(c, "prepare");
  const Tensor *x = &c->tensors[n->inputs->data[0]];
  Tensor *y = &c->tensors[n->outputs->data[0]];
  size_t size = sizeof(int) * (size_t)(1 + x->dims->size);
  Ints *dims = malloc(size);
  memcpy(dims, x->dims, size);
  if (strcmp(option, "temporaries") == 0) {
    free(n->temporaries);
    n->temporaries = calloc(1, sizeof(int));
  }
  return c->resize(c, y, dims);
}

static int Invoke(Context *c, Node *n) { return at(c, "invoke"); }

typedef struct Registration {
  void *(*init)(Context *, const char *, size_t);
  void (*free)(Context *, void *);
  int (*prepare)(Context *, Node *);
  int (*invoke)(Context *, Node *);
  const char *(*profile)(const Context *, const Node *);
  int32_t builtin_code;
  const char *custom_name;
  int version;
} Registration;

EXPORT const Registration *Register_OLD(void) {
  static const Registration r = {Init, NULL, Prepare, Invoke, NULL, 0, "Old", 1};
  return &r;
}
EXPORT const char *NoRegistration(void) { return "text, and long enough to be read as functions"; }
EXPORT void set_option(const char *text) { snprintf(option, sizeof(option), "%s", text); }

typedef struct Delegate {
  void *data;
  int (*Prepare)(Context *, struct Delegate *);
  void *callbacks[3];
  int64_t flags;
  void *builder;
} Delegate;

static int DelegatePrepare(Context *c, Delegate *d) {
  if (strcmp(option, "shapes") == 0) return c->tensors[1].dims->size != 2;
  return at(c, "delegate");
}

EXPORT Delegate *tflite_plugin_create_delegate(const char **keys, const char **values, size_t n, void *report) {
  static Delegate d, bad = {.Prepare = (int (*)(Context *, Delegate *))0x1234};
  d.Prepare = DelegatePrepare;
  set_option(n > 0 ? values[0] : "");
  return strcmp(option, "bad") == 0 ? &bad : &d;
}
EXPORT void tflite_plugin_destroy_delegate(Delegate *d) {}
