// Calls the functions of an op, from its TfLiteRegistration or its TfLiteOperator.
#include "host.h"

// Calls a plug-in's function other than invoke(), through fn(arguments).
static TfLiteStatus call(const pl_node *node, TfLiteStatus (*fn)(void *), void *arguments, pl_host *host) {
  TfLiteStatus status = (node->trapped ? pl_trapped : pl_guard.any)(fn, arguments, &host->context);
  return pl_table_changed(host) ? kTfLiteError : status;
}

// The functions of a TfLiteOperator, with the signatures that a TfLiteRegistration needs.
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
  node->op = op;
  node->reg = *reg;
  if (op != NULL) {
    node->reg.prepare = opaque_prepare;
    node->reg.invoke = op->invoke != NULL || op->invoke_with_data != NULL ? opaque_invoke : NULL;
  }
}

void pl_host_set_kernel(pl_host *host, int index, const TfLiteRegistration *from, TfLiteOperator *op, bool trapped) {
  pl_node *node = host->nodes[index];
  TfLiteRegistration model = node->reg, reg;
  memset(&reg, 0, sizeof(reg));
  if (from != NULL) pl_registration_read(from, &reg, &op);
  pl_node_set_kernel(node, &reg, op);
  node->trapped = trapped;
  node->reg.builtin_code = model.builtin_code;
  node->reg.custom_name = model.custom_name;
  node->reg.version = model.version;
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
  node->trap_invoke = node->trapped;
  if (node->reg.prepare == NULL) {
    if (node->reg.invoke != NULL) return kTfLiteOk;
    context->ReportError(context, "Encountered unresolved custom op: %s.",
                         node->reg.custom_name != NULL ? node->reg.custom_name : "UnknownOp");
    return kTfLiteUnresolvedOps;
  }
  if (node->reg.invoke == NULL) {     // else the first run would call a null pointer
    context->ReportError(context, "its registration has no invoke()");
    return kTfLiteError;
  }
  node_call c = {.host = host, .node = node};
  pl_operands before;
  pl_remember_operands(node, &before);
  TfLiteStatus status = call(node, run_prepare, &c, host), checked = pl_check_operands(host, node, &before);
  int damaged = status == kTfLiteOk && checked == kTfLiteOk ? pl_node_overran(host, node) : -1;
  if (damaged >= 0) {
    char text[PL_TENSOR_TEXT];
    pl_tensor_text(host, damaged, text, sizeof text);
    context->ReportError(context, "it wrote past the end of %s", text);
    return kTfLiteError;
  }
  return status != kTfLiteOk ? status : checked;
}

static TfLiteStatus run_invoke(void *arguments) {
  const node_call *c = arguments;
  return c->node->reg.invoke(&c->host->context, &c->node->node);
}

static __attribute__((noinline)) TfLiteStatus trapped_invoke(pl_host *host, pl_node *node) {
  node_call c = {.host = host, .node = node};
  TfLiteStatus status = pl_trapped(run_invoke, &c, &host->context);
  node->trap_invoke = status != kTfLiteOk;
  return status;
}

static TfLiteStatus invoke(pl_host *host, pl_node *node) {
  if (node->trap_invoke) return trapped_invoke(host, node);
  return pl_guard.node(node->reg.invoke, &host->context, &node->node);
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

void pl_node_finalize(pl_host *host, pl_node *node) {
  if (node->initialised && node->node.user_data != NULL) {
    node_call c = {host, node, NULL, 0, node->node.user_data};
    node->node.user_data = NULL;
    call(node, run_free, &c, host);
  }
  node->initialised = false;
}

static TfLiteStatus run_profiling_string(void *arguments) {
  node_call *c = arguments;
  c->buffer = c->node->reg.profiling_string(&c->host->context, &c->node->node);
  return kTfLiteOk;
}

const char *pl_node_profiling_string(pl_host *host, pl_node *node) {
  node_call c = {.host = host, .node = node};
  if (!node->initialised || node->reg.profiling_string == NULL) return NULL;
  return call(node, run_profiling_string, &c, host) == kTfLiteOk ? c.buffer : NULL;
}

int pl_node_invoke(pl_host *host, pl_node *node, const pl_binding *bindings, int count, pl_watched *watched,
                   int num_watched) {
  TfLiteTensor *tensors = host->context.tensors;
  for (int i = 0; i < count; i++) {
    const pl_binding *b = &bindings[i];
    tensors[b->tensor].data.raw = b->data;
    // A prepare() may have resized a tensor of another node, and shapes that depend on data may have shrunk since.
    if (tensors[b->tensor].bytes > b->bytes) tensors[b->tensor].bytes = b->bytes;
    if (!b->band) continue;
    pl_write_band(b->data - PL_BAND);
    pl_write_band(b->data + b->bytes);
  }
  pl_watch(host, watched, num_watched);
  host->invoking = true;
  host->watched = watched;
  host->num_watched = num_watched;
  if (host->profiler != NULL) pl_profiler_running(host->profiler, node);
  TfLiteStatus status = invoke(host, node);
  if (host->profiler != NULL) pl_profiler_running(host->profiler, NULL);
  host->invoking = false;
  bool changed = pl_table_changed(host);
  changed |= pl_watched_changed(host, watched, num_watched);
  if (status != kTfLiteOk || changed) return PL_FAILED;
  for (int i = 0; i < count; i++) {
    const pl_binding *b = &bindings[i];
    if (!b->band) continue;
    if (!pl_band_intact(b->data + b->bytes)) return PL_OVERRUN;
    if (!pl_band_intact(b->data - PL_BAND)) return PL_UNDERRUN;
  }
  return pl_node_overran(host, node) >= 0 ? PL_OVERRUN : 0;
}
