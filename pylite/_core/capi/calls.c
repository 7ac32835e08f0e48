// Calls of plug-ins: the four functions of an op, classic or behind opaque types.
#include "host.h"

// Calls what does not run in the loop, with its arguments in a struct.
static TfLiteStatus call(const pl_node *node, TfLiteStatus (*fn)(void *), void *arguments, pl_host *host) {
  return (node->trapped ? pl_trapped : pl_guard.any)(fn, arguments, &host->context);
}

// The opaque form of an op, called through the classic one's signatures.
static TfLiteStatus opaque_prepare(TfLiteContext *context, TfLiteNode *node) {
  const TfLiteOperator *op = ((pl_node *)node)->op;
  TfLiteOpaqueContext *c = (TfLiteOpaqueContext *)context;
  TfLiteOpaqueNode *n = (TfLiteOpaqueNode *)node;
  if (op->prepare_with_data != NULL) return op->prepare_with_data(op->user_data, c, n);
  return op->prepare != NULL ? op->prepare(c, n) : kTfLiteOk;
}

static TfLiteStatus opaque_invoke(TfLiteContext *context, TfLiteNode *node) {
  const TfLiteOperator *op = ((pl_node *)node)->op;
  TfLiteOpaqueContext *c = (TfLiteOpaqueContext *)context;
  TfLiteOpaqueNode *n = (TfLiteOpaqueNode *)node;
  if (op->invoke_with_data != NULL) return op->invoke_with_data(op->user_data, c, n);
  return op->invoke(c, n);
}

void pl_node_set_kernel(pl_node *node, const TfLiteRegistration *reg, TfLiteOperator *op) {
  node->plugin = true;
  node->op = op;
  node->reg = *reg;
  if (op != NULL) {
    node->reg.prepare = opaque_prepare;
    node->reg.invoke = op->invoke != NULL || op->invoke_with_data != NULL ? opaque_invoke : NULL;
  }
}

void pl_host_plug(pl_host *host, int index, const TfLiteRegistration *from, TfLiteOperator *op, bool trapped) {
  pl_node *node = host->nodes[index];
  TfLiteRegistration own = node->reg, reg;
  memset(&reg, 0, sizeof(reg));
  if (from != NULL) pl_registration_read(from, &reg, &op);
  pl_node_set_kernel(node, &reg, op);
  node->trapped = trapped;
  node->reg.builtin_code = own.builtin_code;      // what the model says the node is
  node->reg.custom_name = own.custom_name;
  node->reg.version = own.version;
}

typedef struct node_call {
  pl_host *host;
  pl_node *node;
  const char *buffer;
  size_t length;
  void *data;
} node_call;

static TfLiteStatus run_init(void *arguments) {
  node_call *c = arguments;
  const TfLiteOperator *op = c->node->op;
  TfLiteOpaqueContext *opaque = (TfLiteOpaqueContext *)c->host;
  if (op == NULL) {
    c->data = c->node->reg.init != NULL ? c->node->reg.init(&c->host->context, c->buffer, c->length) : NULL;
  } else if (op->init_with_data != NULL) {
    c->data = op->init_with_data(op->user_data, opaque, c->buffer, c->length);
  } else {
    c->data = op->init != NULL ? op->init(opaque, c->buffer, c->length) : NULL;
  }
  return kTfLiteOk;
}

TfLiteStatus pl_node_init(pl_host *host, pl_node *node, const char *buffer, size_t length) {
  node_call c = {host, node, buffer, length, NULL};
  if (call(node, run_init, &c, host) != kTfLiteOk || c.data == TfLiteKernelInitFailed()) return kTfLiteDelegateError;
  node->node.user_data = c.data;
  node->initialised = true;
  return kTfLiteOk;
}

static TfLiteStatus run_prepare(void *arguments) {
  const node_call *c = arguments;
  return c->node->reg.prepare(&c->host->context, &c->node->node);
}

TfLiteStatus pl_node_prepare(pl_host *host, pl_node *node) {
  TfLiteContext *context = &host->context;
  if (node->reg.prepare == NULL) {
    if (node->reg.invoke != NULL) return kTfLiteOk;
    context->ReportError(context, "Encountered unresolved custom op: %s.",
                         node->reg.custom_name != NULL ? node->reg.custom_name : "UnknownOp");
    return kTfLiteUnresolvedOps;
  }
  node->tried = !node->trapped;
  node_call c = {.host = host, .node = node};
  const TfLiteIntArray *intermediates = node->node.intermediates;
  TfLiteStatus status = call(node, run_prepare, &c, host);
  if (node->node.intermediates != intermediates) {
    context->ReportError(context, "it wrote to node->intermediates, where nodes had their temporaries before TensorFlow "
                                  "2.0: a plug-in that was built so long ago cannot be hosted");
    return kTfLiteError;
  }
  return status;
}

static TfLiteStatus run_invoke(void *arguments) {
  const node_call *c = arguments;
  return c->node->reg.invoke(&c->host->context, &c->node->node);
}

static __attribute__((noinline)) TfLiteStatus first_invoke(pl_host *host, pl_node *node) {
  node_call c = {.host = host, .node = node};
  TfLiteStatus status = call(node, run_invoke, &c, host);
  node->tried = status == kTfLiteOk;
  return status;
}

static TfLiteStatus invoke(pl_host *host, pl_node *node) {
  if (node->reg.invoke == NULL) return kTfLiteError;
  return node->tried ? pl_guard.node(node->reg.invoke, &host->context, &node->node) : first_invoke(host, node);
}

static TfLiteStatus run_free(void *arguments) {
  const node_call *c = arguments;
  const TfLiteOperator *op = c->node->op;
  TfLiteOpaqueContext *opaque = (TfLiteOpaqueContext *)c->host;
  if (op == NULL) {
    if (c->node->reg.free != NULL) c->node->reg.free(&c->host->context, c->data);
  } else if (op->free_with_data != NULL) {
    op->free_with_data(op->user_data, opaque, c->data);
  } else if (op->free != NULL) {
    op->free(opaque, c->data);
  }
  return kTfLiteOk;
}

void pl_node_end(pl_host *host, pl_node *node) {
  if (node->initialised && node->node.user_data != NULL) {
    node_call c = {host, node, NULL, 0, node->node.user_data};
    node->node.user_data = NULL;
    call(node, run_free, &c, host);
  }
  node->initialised = false;
}

static const unsigned char band[PL_BAND] = {
    0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1, 0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1,
    0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1, 0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1,
    0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1, 0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1,
    0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1, 0x5a, 0xc3, 0x96, 0x3c, 0xa5, 0x69, 0x0f, 0xf1};

int pl_run(pl_host *host, pl_node *node, const pl_place *places, int count) {
  TfLiteTensor *tensors = host->context.tensors;
  for (int i = 0; i < count; i++) {
    tensors[places[i].tensor].data.raw = places[i].data;
    if (places[i].band) memcpy(places[i].data + places[i].bytes, band, PL_BAND);
  }
  host->invoking = true;
  TfLiteStatus status = invoke(host, node);
  host->invoking = false;
  if (status != kTfLiteOk) return PL_FAILED;
  int found = 0;
  for (int i = 0; i < count; i++) {
    if (tensors[places[i].tensor].data.raw != places[i].data) found = PL_MOVED;
    if (places[i].band && memcmp(places[i].data + places[i].bytes, band, PL_BAND) != 0) return PL_OVERRUN;
  }
  return found;
}
