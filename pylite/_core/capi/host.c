// The tables that plug-ins see, and the functions of TfLiteContext.
#include "host.h"

#include <stdio.h>

#define SLOTS 65536     // tensors; untouched memory costs nothing, and so the table never moves

// ---- Errors ----

void pl_report(pl_host *host, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return;
  size_t before = host->errors != NULL ? strlen(host->errors) + 1 : 0;
  char *text = realloc(host->errors, before + (size_t)length + 1);
  if (text == NULL) return;
  if (before) text[before - 1] = '\n';
  vsnprintf(text + before, (size_t)length + 1, format, arguments);
  host->errors = text;
}

static void report(TfLiteContext *context, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pl_report((pl_host *)context, format, arguments);
  va_end(arguments);
}

// ---- Calling plug-ins ----

static TfLiteStatus call_node(TfLiteStatus (*fn)(TfLiteContext *, TfLiteNode *), TfLiteContext *context,
                              TfLiteNode *node) {
  return fn(context, node);
}

static TfLiteStatus call_any(TfLiteStatus (*fn)(void *), void *arguments, TfLiteContext *context) {
  (void)context;
  return fn(arguments);
}

pl_guards pl_guard = {call_node, call_any};

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

// A registration is read as far as all binaries have it: 64 bytes.  The rest only where there is nothing in those.
void pl_registration_read(const TfLiteRegistration *from, TfLiteRegistration *to, TfLiteOperator **op) {
  memset(to, 0, sizeof(*to));
  memcpy(to, from, offsetof(TfLiteRegistration, registration_external));
  *op = NULL;
  if (from->init == NULL && from->free == NULL && from->prepare == NULL && from->invoke == NULL) {
    *op = from->registration_external;
  }
}

static void set_kernel(pl_node *node, const TfLiteRegistration *reg, TfLiteOperator *op) {
  node->plugin = true;
  node->op = op;
  node->reg = *reg;
  if (op != NULL) {
    node->reg.prepare = opaque_prepare;
    node->reg.invoke = op->invoke != NULL || op->invoke_with_data != NULL ? opaque_invoke : NULL;
  }
}

void pl_host_plug(pl_host *host, int index, const TfLiteRegistration *from, TfLiteOperator *op) {
  pl_node *node = host->nodes[index];
  TfLiteRegistration own = node->reg, reg;
  memset(&reg, 0, sizeof(reg));
  if (from != NULL) pl_registration_read(from, &reg, &op);
  set_kernel(node, &reg, op);
  node->reg.builtin_code = own.builtin_code;      // what the model says the node is
  node->reg.custom_name = own.custom_name;
  node->reg.version = own.version;
}

// What does not run in the loop is called through one guard: with its arguments in a struct.
typedef struct init_call {
  pl_host *host;
  pl_node *node;
  const char *buffer;
  size_t length;
  void *made;
} init_call;

static TfLiteStatus run_init(void *arguments) {
  init_call *c = arguments;
  const TfLiteOperator *op = c->node->op;
  TfLiteOpaqueContext *opaque = (TfLiteOpaqueContext *)c->host;
  c->made = TfLiteKernelInitFailed();     // should it throw
  if (op == NULL) {
    c->made = c->node->reg.init != NULL ? c->node->reg.init(&c->host->context, c->buffer, c->length) : NULL;
  } else if (op->init_with_data != NULL) {
    c->made = op->init_with_data(op->user_data, opaque, c->buffer, c->length);
  } else {
    c->made = op->init != NULL ? op->init(opaque, c->buffer, c->length) : NULL;
  }
  return kTfLiteOk;
}

TfLiteStatus pl_node_init(pl_host *host, pl_node *node, const char *buffer, size_t length) {
  init_call call = {host, node, buffer, length, NULL};
  pl_guard.any(run_init, &call, &host->context);
  if (call.made == TfLiteKernelInitFailed()) return kTfLiteDelegateError;
  node->node.user_data = call.made;
  node->initialised = true;
  return kTfLiteOk;
}

TfLiteStatus pl_node_prepare(pl_host *host, pl_node *node) {
  if (node->reg.prepare == NULL) {
    if (node->reg.invoke != NULL) return kTfLiteOk;
    report(&host->context, "Encountered unresolved custom op: %s.",
           node->reg.custom_name != NULL ? node->reg.custom_name : "UnknownOp");
    return kTfLiteUnresolvedOps;
  }
  return pl_guard.node(node->reg.prepare, &host->context, &node->node);
}

TfLiteStatus pl_node_invoke(pl_host *host, pl_node *node) {
  if (node->reg.invoke == NULL) return kTfLiteError;
  return pl_guard.node(node->reg.invoke, &host->context, &node->node);
}

static TfLiteStatus run_free(void *arguments) {
  const init_call *c = arguments;
  const TfLiteOperator *op = c->node->op;
  TfLiteOpaqueContext *opaque = (TfLiteOpaqueContext *)c->host;
  if (op == NULL) {
    if (c->node->reg.free != NULL) c->node->reg.free(&c->host->context, c->made);
  } else if (op->free_with_data != NULL) {
    op->free_with_data(op->user_data, opaque, c->made);
  } else if (op->free != NULL) {
    op->free(opaque, c->made);
  }
  return kTfLiteOk;
}

void pl_node_end(pl_host *host, pl_node *node) {
  if (node->initialised && node->node.user_data != NULL) {
    init_call call = {host, node, NULL, 0, node->node.user_data};
    node->node.user_data = NULL;
    pl_guard.any(run_free, &call, &host->context);
  }
  node->initialised = false;
}

static void release_node(pl_host *host, pl_node *node) {
  pl_node_end(host, node);
  free(node->node.inputs);
  free(node->node.outputs);
  free(node->node.intermediates);
  free(node->node.temporaries);
  free(node->node.builtin_data);
  free(node->inputs);
  if (node->node.delegate == NULL) free((char *)node->reg.custom_name);    // else it is the delegate's
  if (node->identity != NULL) free(node->identity->custom_name);
  free(node->identity);
  if (node->owns_op && node->op != NULL) {
    free(node->op->custom_name);
    free(node->op);
  }
  free(node);
}

// ---- The functions of the context ----

static bool is_ours(const pl_host *host, const TfLiteTensor *tensor) {
  const char *at = (const char *)tensor, *start = (const char *)host->context.tensors;
  return tensor != NULL && at >= start && at < start + host->context.tensors_size * sizeof(TfLiteTensor) &&
         (size_t)(at - start) % sizeof(TfLiteTensor) == 0;
}

static TfLiteStatus resize(TfLiteContext *context, TfLiteTensor *tensor, TfLiteIntArray *dims) {
  pl_host *host = (pl_host *)context;
  const char *why = NULL;
  size_t bytes = 0;
  if (dims == NULL) {
    why = "ResizeTensor was given no shape";
  } else if (!is_ours(host, tensor)) {
    why = "ResizeTensor was given a tensor that is not of this context";
  } else if (tensor->allocation_type != kTfLiteArenaRw && tensor->allocation_type != kTfLiteArenaRwPersistent &&
             tensor->allocation_type != kTfLiteDynamic && tensor->allocation_type != kTfLitePersistentRo) {
    why = "Attempting to resize a fixed-size tensor.";
  } else if (tensor->data.raw != NULL && TfLiteIntArrayEqual(tensor->dims, dims)) {
    free(dims);
    return kTfLiteOk;
  } else if (host->invoking != NULL && (tensor->allocation_type == kTfLiteArenaRw ||
                                        tensor->allocation_type == kTfLiteArenaRwPersistent)) {
    why = "ResizeTensor was called in invoke for a tensor of the arena; make it kTfLiteDynamic in prepare";
  } else if (tensor->type != kTfLiteString) {
    if (dims->size < 0) why = "ResizeTensor was given a negative number of dimensions";
    if (!pl_size_of(tensor->type, &bytes)) bytes = sizeof(void *);
    bool empty = false;
    for (int i = 0; why == NULL && i < dims->size; i++) {
      if (dims->data[i] < 0) {
        why = "ResizeTensor was given a negative dimension";
      } else if (dims->data[i] == 0) {
        empty = true;
      } else if (bytes > PTRDIFF_MAX / 2 / (size_t)dims->data[i]) {
        why = "ResizeTensor was given a shape that no memory can hold";
      } else {
        bytes *= (size_t)dims->data[i];
      }
    }
    if (empty) bytes = 0;
    if (why == NULL && TfLiteTensorRealloc(bytes, tensor) != kTfLiteOk) why = "ResizeTensor found no memory";
    if (why == NULL) tensor->bytes = bytes;
  }
  if (why != NULL) {
    report(context, "%s", why);
    free(dims);
    return kTfLiteError;
  }
  free(tensor->dims);
  tensor->dims = dims;
  if (tensor->allocation_type == kTfLiteArenaRw || tensor->allocation_type == kTfLiteArenaRwPersistent) {
    tensor->data.raw = NULL;
  }
  return kTfLiteOk;
}

static TfLiteStatus resize_explicit(TfLiteContext *context, TfLiteTensor *tensor, int rank, const int *shape) {
  TfLiteIntArray *dims = rank >= 0 ? TfLiteIntArrayCreate(rank) : NULL;
  if (dims != NULL && rank > 0) memcpy(dims->data, shape, sizeof(int) * (size_t)rank);
  return resize(context, tensor, dims);
}

static TfLiteStatus add_tensors(TfLiteContext *context, int count, int *first) {
  pl_host *host = (pl_host *)context;
  if (count < 0 || (size_t)count > host->capacity - context->tensors_size) {
    report(context, "AddTensors: no room for %d more tensors", count);
    return kTfLiteError;
  }
  if (first != NULL) *first = (int)context->tensors_size;
  for (int i = 0; i < count; i++) context->tensors[context->tensors_size + (size_t)i].buffer_handle = -1;
  context->tensors_size += (size_t)count;
  return kTfLiteOk;
}

static TfLiteStatus get_plan(TfLiteContext *context, TfLiteIntArray **plan) {
  pl_host *host = (pl_host *)context;
  if (!host->delegating) {
    report(context, "GetExecutionPlan is only for a delegate's Prepare");
    return kTfLiteError;
  }
  free(host->plan_given);
  host->plan_given = TfLiteIntArrayCopy(host->plan);
  *plan = host->plan_given;
  return host->plan_given != NULL ? kTfLiteOk : kTfLiteError;
}

static TfLiteStatus get_node(TfLiteContext *context, int index, TfLiteNode **node, TfLiteRegistration **reg) {
  pl_host *host = (pl_host *)context;
  if (!host->delegating) {
    report(context, "GetNodeAndRegistration is only for a delegate's Prepare");
    return kTfLiteError;
  }
  if (index < 0 || index >= host->num_nodes) {
    report(context, "GetNodeAndRegistration: no node %d among %d", index, host->num_nodes);
    return kTfLiteError;
  }
  *node = &host->nodes[index]->node;
  *reg = &host->nodes[index]->reg;
  return kTfLiteOk;
}

static bool checked_nodes(pl_host *host, const char *what, const TfLiteIntArray *nodes) {
  if (!host->delegating) {
    report(&host->context, "%s is only for a delegate's Prepare", what);
    return false;
  }
  for (int i = 0; nodes != NULL && i < nodes->size; i++) {
    if (nodes->data[i] < 0 || nodes->data[i] >= host->num_nodes) {
      report(&host->context, "%s: no node %d among %d", what, nodes->data[i], host->num_nodes);
      return false;
    }
  }
  return nodes != NULL;
}

static TfLiteStatus replace(TfLiteContext *context, TfLiteRegistration given, const TfLiteIntArray *nodes,
                            TfLiteDelegate *delegate) {
  pl_host *host = (pl_host *)context;
  TfLiteRegistration reg;
  TfLiteOperator *op;
  pl_registration_read(&given, &reg, &op);
  if (!checked_nodes(host, "ReplaceNodeSubsetsWithDelegateKernels", nodes)) return kTfLiteError;
  if (nodes->size == 0) return kTfLiteOk;
  return host->callbacks->replace(host, &reg, op, nodes, delegate);
}

static TfLiteStatus preview(TfLiteContext *context, const TfLiteIntArray *nodes, TfLiteDelegateParams **params,
                            int *count) {
  pl_host *host = (pl_host *)context;
  if (!checked_nodes(host, "PreviewDelegatePartitioning", nodes)) return kTfLiteError;
  return host->callbacks->preview(host, nodes, params, count);
}

static TfLiteExternalContext *get_external(TfLiteContext *context, TfLiteExternalContextType type) {
  return (unsigned)type < kTfLiteMaxExternalContexts ? ((pl_host *)context)->externals[type] : NULL;
}

static void set_external(TfLiteContext *context, TfLiteExternalContextType type, TfLiteExternalContext *external) {
  if ((unsigned)type < kTfLiteMaxExternalContexts) ((pl_host *)context)->externals[type] = external;
}

static TfLiteStatus get_metadata(const TfLiteContext *context, const char *name, const char **data, size_t *bytes) {
  pl_host *host = (pl_host *)context;
  return name != NULL ? host->callbacks->metadata(host, name, data, bytes) : kTfLiteError;
}

static TfLiteStatus acquire(TfLiteContext *context, int index, TfLiteContext **other) {
  pl_host *host = (pl_host *)context;
  if (!host->delegating) {
    report(context, "AcquireSubgraphContext is only for a delegate's Prepare");
    return kTfLiteError;
  }
  TfLiteStatus status = host->callbacks->subgraph(host, index, other);
  if (status == kTfLiteOk) ((pl_host *)*other)->delegating = true;
  return status;
}

static TfLiteStatus release(TfLiteContext *context, int index) {
  pl_host *host = (pl_host *)context;
  TfLiteContext *other = NULL;
  TfLiteStatus status = host->callbacks->subgraph(host, index, &other);
  if (status == kTfLiteOk && other != context) ((pl_host *)other)->delegating = false;
  return status;
}

// The model's own nodes: a delegate may look at these, but pylite runs such nodes itself.
static TfLiteStatus not_callable(TfLiteContext *context, TfLiteNode *node) {
  (void)node;
  report(context, "the kernels of pylite cannot be called by plug-ins");
  return kTfLiteError;
}

// ---- Buffer handles ----

typedef struct handle_call {
  TfLiteContext *context;
  TfLiteTensor *tensor;
} handle_call;

// The callbacks of a delegate behind an opaque type, else NULL.
static const TfLiteOpaqueDelegateBuilder *builder_of(const TfLiteDelegate *d) {
  return d->Prepare == NULL ? d->opaque_delegate_builder : NULL;
}

static TfLiteStatus run_free_handle(void *arguments) {
  const handle_call *call = arguments;
  TfLiteTensor *t = call->tensor;
  TfLiteDelegate *d = t->delegate;
  const TfLiteOpaqueDelegateBuilder *b = builder_of(d);
  if (b != NULL && b->FreeBufferHandle != NULL) {
    b->FreeBufferHandle((TfLiteOpaqueContext *)call->context, (TfLiteOpaqueDelegate *)d, b->data, &t->buffer_handle);
  } else if (b == NULL && d->FreeBufferHandle != NULL) {
    d->FreeBufferHandle(call->context, d, &t->buffer_handle);
  }
  return kTfLiteOk;
}

static TfLiteStatus run_copy_from(void *arguments) {
  const handle_call *call = arguments;
  TfLiteTensor *t = call->tensor;
  TfLiteDelegate *d = t->delegate;
  const TfLiteOpaqueDelegateBuilder *b = builder_of(d);
  if (b != NULL) {
    return b->CopyFromBufferHandle == NULL ? kTfLiteError : b->CopyFromBufferHandle(
        (TfLiteOpaqueContext *)call->context, (TfLiteOpaqueDelegate *)d, b->data, t->buffer_handle,
        (TfLiteOpaqueTensor *)t);
  }
  return d->CopyFromBufferHandle == NULL ? kTfLiteError
                                         : d->CopyFromBufferHandle(call->context, d, t->buffer_handle, t);
}

// ---- Tables ----

pl_host *pl_host_new(size_t tensors, const pl_callbacks *callbacks, void *python, TfLiteExternalContext **externals) {
  pl_host *host = calloc(1, sizeof(pl_host));
  if (host == NULL) return NULL;
  host->capacity = tensors + SLOTS;
  host->model_tensors = tensors;
  host->callbacks = callbacks;
  host->python = python;
  host->externals = externals;
  TfLiteContext *c = &host->context;
  c->tensors = calloc(host->capacity, sizeof(TfLiteTensor));
  if (c->tensors == NULL) {
    free(host);
    return NULL;
  }
  for (size_t i = 0; i < tensors; i++) c->tensors[i].buffer_handle = -1;
  c->tensors_size = tensors;
  c->impl_ = host;
  c->recommended_num_threads = -1;
  c->GetExecutionPlan = get_plan;
  c->ResizeTensor = resize;
  c->ReportError = report;
  c->AddTensors = add_tensors;
  c->GetNodeAndRegistration = get_node;
  c->ReplaceNodeSubsetsWithDelegateKernels = replace;
  c->GetExternalContext = get_external;
  c->SetExternalContext = set_external;
  c->ResizeTensorExplicit = resize_explicit;
  c->PreviewDelegatePartitioning = preview;
  c->GetModelMetadata = get_metadata;
  c->AcquireSubgraphContext = acquire;
  c->ReleaseSubgraphContext = release;
  return host;
}

void pl_host_free(pl_host *host) {
  if (host == NULL) return;
  TfLiteContext *c = &host->context;
  for (int i = 0; i < host->num_nodes; i++) release_node(host, host->nodes[i]);
  for (size_t i = 0; i < c->tensors_size; i++) {
    TfLiteTensor *t = &c->tensors[i];
    handle_call call = {c, t};
    if (t->buffer_handle != kTfLiteNullBufferHandle && t->delegate != NULL) pl_guard.any(run_free_handle, &call, c);
  }
  for (size_t i = 0; i < c->tensors_size; i++) {
    if (i < host->model_tensors) free((char *)c->tensors[i].name);
    TfLiteTensorFree(&c->tensors[i]);
  }
  free(c->tensors);
  free(host->nodes);
  free(host->plan);
  free(host->model_plan);
  free(host->plan_given);
  free(host->inputs);
  free(host->outputs);
  free(host->variables);
  free(host->errors);
  free(host->name);
  free(host);
}

int pl_host_tensor(pl_host *host, int index, const char *name, int type, const TfLiteIntArray *dims,
                   const TfLiteIntArray *signature, int allocation_type, const void *data, size_t bytes,
                   int is_variable) {
  TfLiteTensor *t = &host->context.tensors[index];
  t->type = (TfLiteType)type;
  t->name = strdup(name);
  t->dims = TfLiteIntArrayCopy(dims);
  t->dims_signature = TfLiteIntArrayCopy(signature);
  t->allocation_type = (TfLiteAllocationType)allocation_type;
  t->data.raw_const = data;
  t->bytes = bytes;
  t->is_variable = is_variable != 0;
  return t->name != NULL && t->dims != NULL ? 0 : -1;
}

int pl_host_quantization(pl_host *host, int index, const float *scales, const int64_t *zero_points, int count,
                         int axis) {
  TfLiteTensor *t = &host->context.tensors[index];
  TfLiteAffineQuantization *q = calloc(1, sizeof(*q));
  if (q == NULL) return -1;
  t->quantization.type = kTfLiteAffineQuantization;
  t->quantization.params = q;
  q->scale = TfLiteFloatArrayCreate(count);
  q->zero_point = TfLiteIntArrayCreate(count);
  q->quantized_dimension = axis;
  if (q->scale == NULL || q->zero_point == NULL) return -1;
  for (int i = 0; i < count; i++) {
    q->scale->data[i] = scales[i];
    q->zero_point->data[i] = (int)zero_points[i];
  }
  if (count == 1) {
    t->params.scale = scales[0];
    t->params.zero_point = (int32_t)zero_points[0];
  }
  return 0;
}

int pl_host_blockwise(pl_host *host, int index, int scale, int zero_point, int block_size, int axis) {
  TfLiteTensor *t = &host->context.tensors[index];
  TfLiteBlockwiseQuantization *q = malloc(sizeof(*q));
  if (q == NULL) return -1;
  *q = (TfLiteBlockwiseQuantization){scale, zero_point, block_size, axis};
  t->quantization.type = kTfLiteBlockwiseQuantization;
  t->quantization.params = q;
  return 0;
}

TfLiteSparsity *pl_host_sparsity(pl_host *host, int index, TfLiteIntArray *order, TfLiteIntArray *blocks,
                                 int dimensions) {
  TfLiteSparsity *s = calloc(1, sizeof(*s));
  if (s == NULL) return NULL;
  host->context.tensors[index].sparsity = s;
  s->traversal_order = order;
  s->block_map = blocks;
  s->dim_metadata = calloc((size_t)dimensions + 1, sizeof(*s->dim_metadata));
  if (s->dim_metadata == NULL) return NULL;
  s->dim_metadata_size = dimensions;
  return s;
}

static pl_node *new_node(pl_host *host) {
  pl_node **nodes = realloc(host->nodes, sizeof(pl_node *) * (size_t)(host->num_nodes + 1));
  if (nodes == NULL) return NULL;
  host->nodes = nodes;
  pl_node *node = calloc(1, sizeof(pl_node));
  if (node != NULL) nodes[host->num_nodes++] = node;
  return node;
}

int pl_host_node(pl_host *host, int builtin_code, const char *custom_name, int version, const TfLiteIntArray *inputs,
                 const TfLiteIntArray *outputs, const TfLiteIntArray *intermediates, const void *params,
                 size_t params_size, const void *options, int options_size) {
  pl_node *node = new_node(host);
  if (node == NULL) return -1;
  TfLiteNode *n = &node->node;
  n->inputs = TfLiteIntArrayCopy(inputs);
  n->outputs = TfLiteIntArrayCopy(outputs);
  n->intermediates = TfLiteIntArrayCopy(intermediates);
  n->temporaries = TfLiteIntArrayCreate(0);
  node->inputs = TfLiteIntArrayCopy(inputs);
  if (params != NULL) {
    n->builtin_data = malloc(params_size);
    if (n->builtin_data == NULL) return -1;
    memcpy(n->builtin_data, params, params_size);
  }
  n->custom_initial_data = options;
  n->custom_initial_data_size = options_size;
  node->reg.builtin_code = builtin_code;
  node->reg.custom_name = custom_name != NULL ? strdup(custom_name) : NULL;
  node->reg.version = version;
  node->reg.prepare = not_callable;
  node->reg.invoke = not_callable;
  return n->inputs != NULL && n->outputs != NULL && n->temporaries != NULL && node->inputs != NULL ? 0 : -1;
}

// ---- Delegates ----

typedef struct delegate_call {
  TfLiteContext *context;
  TfLiteDelegate *delegate;
} delegate_call;

static TfLiteStatus run_apply(void *arguments) {
  const delegate_call *c = arguments;
  if (c->delegate->Prepare != NULL) return c->delegate->Prepare(c->context, c->delegate);
  const TfLiteOpaqueDelegateBuilder *b = c->delegate->opaque_delegate_builder;
  if (b != NULL && b->Prepare != NULL) {
    return b->Prepare((TfLiteOpaqueContext *)c->context, (TfLiteOpaqueDelegate *)c->delegate, b->data);
  }
  report(c->context, "the delegate has no Prepare");
  return kTfLiteDelegateError;
}

TfLiteStatus pl_host_apply(pl_host *host, TfLiteDelegate *delegate) {
  delegate_call call = {&host->context, delegate};
  host->delegating = true;
  TfLiteStatus status = pl_guard.any(run_apply, &call, &host->context);
  host->delegating = false;
  return status;
}

typedef struct end_call {
  void (*end)(void *);
  void *delegate;
} end_call;

static TfLiteStatus run_end(void *arguments) {
  const end_call *c = arguments;
  c->end(c->delegate);
  return kTfLiteOk;
}

void pl_delegate_end(void (*end)(void *), void *delegate) {
  end_call call = {end, delegate};
  pl_guard.any(run_end, &call, NULL);
}

typedef struct refresh_call {
  TfLiteContext *context;
  TfLiteExternalContext *external;
} refresh_call;

static TfLiteStatus run_refresh(void *arguments) {
  const refresh_call *c = arguments;
  return c->external->Refresh(c->context);
}

void pl_refresh(pl_host *host, TfLiteExternalContext *external) {
  refresh_call call = {&host->context, external};
  pl_guard.any(run_refresh, &call, &host->context);
}

static TfLiteIntArray *put(char **at, const TfLiteIntArray *from) {
  TfLiteIntArray *to = (TfLiteIntArray *)*at;
  memcpy(to, from, TfLiteIntArrayGetSizeInBytes(from->size));
  *at += TfLiteIntArrayGetSizeInBytes(from->size);
  return to;
}

// The struct and its arrays in one block, so that one free() ends them.
static void *params_block(size_t head, const TfLiteIntArray *a, const TfLiteIntArray *b, const TfLiteIntArray *c) {
  return calloc(1, head + TfLiteIntArrayGetSizeInBytes(a->size) + TfLiteIntArrayGetSizeInBytes(b->size) +
                       TfLiteIntArrayGetSizeInBytes(c->size));
}

TfLiteDelegateParams *pl_params_new(TfLiteDelegate *delegate, const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                                    const TfLiteIntArray *outputs) {
  TfLiteDelegateParams *params = params_block(sizeof(*params), nodes, inputs, outputs);
  if (params == NULL) return NULL;
  char *at = (char *)(params + 1);
  params->delegate = delegate;
  params->nodes_to_replace = put(&at, nodes);
  params->input_tensors = put(&at, inputs);
  params->output_tensors = put(&at, outputs);
  return params;
}

static TfLiteOpaqueDelegateParams *opaque_params_new(TfLiteDelegate *delegate, const TfLiteIntArray *nodes,
                                                     const TfLiteIntArray *inputs, const TfLiteIntArray *outputs) {
  TfLiteOpaqueDelegateParams *params = params_block(sizeof(*params), nodes, inputs, outputs);
  if (params == NULL) return NULL;
  char *at = (char *)(params + 1);
  params->delegate = (TfLiteOpaqueDelegate *)delegate;
  params->delegate_data = delegate->Prepare == NULL && delegate->opaque_delegate_builder != NULL
                              ? delegate->opaque_delegate_builder->data : delegate->data_;
  params->nodes_to_replace = put(&at, nodes);
  params->input_tensors = put(&at, inputs);
  params->output_tensors = put(&at, outputs);
  return params;
}

TfLiteStatus pl_host_delegate_node(pl_host *host, const TfLiteRegistration *reg, TfLiteOperator *op,
                                   TfLiteDelegate *delegate, const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                                   const TfLiteIntArray *outputs) {
  pl_node *node = new_node(host);
  if (node == NULL) return kTfLiteError;
  set_kernel(node, reg, op);
  node->reg.builtin_code = kTfLiteBuiltinDelegate;
  if (op != NULL) node->reg.custom_name = op->custom_name;
  TfLiteNode *n = &node->node;
  n->delegate = delegate;         // hidden again while init runs, as plug-ins know it
  n->inputs = TfLiteIntArrayCopy(inputs);
  n->outputs = TfLiteIntArrayCopy(outputs);
  n->intermediates = TfLiteIntArrayCreate(0);
  n->temporaries = TfLiteIntArrayCreate(0);
  node->inputs = TfLiteIntArrayCopy(inputs);
  n->builtin_data = op != NULL ? (void *)opaque_params_new(delegate, nodes, inputs, outputs)
                               : (void *)pl_params_new(delegate, nodes, inputs, outputs);
  if (n->inputs == NULL || n->outputs == NULL || n->temporaries == NULL || n->builtin_data == NULL) return kTfLiteError;
  TfLiteStatus status = pl_node_init(host, node, n->builtin_data, 0);
  if (status != kTfLiteOk) return status;
  for (int i = 0; i < outputs->size; i++) {
    TfLiteTensor *t = &host->context.tensors[outputs->data[i]];
    if (t->delegate != NULL && t->delegate != delegate) {
      report(&host->context, "tensor %d already belongs to another delegate", outputs->data[i]);
      return kTfLiteError;
    }
    t->delegate = delegate;
  }
  return kTfLiteOk;
}

// Takes the graph back to the model's.
void pl_host_undo(pl_host *host) {
  for (int i = host->model_nodes; i < host->num_nodes; i++) release_node(host, host->nodes[i]);
  host->num_nodes = host->model_nodes;
  for (int i = 0; i < host->num_nodes; i++) {
    pl_node *node = host->nodes[i];
    TfLiteIntArray *inputs = TfLiteIntArrayCopy(node->inputs);
    if (inputs != NULL) {
      free(node->node.inputs);
      node->node.inputs = inputs;
    }
  }
  for (size_t i = 0; i < host->context.tensors_size; i++) {
    TfLiteTensor *t = &host->context.tensors[i];
    t->data_is_stale = false;
    if (t->buffer_handle == kTfLiteNullBufferHandle) t->delegate = NULL;
    if (i < host->model_tensors && t->type != kTfLiteString &&
        (t->allocation_type == kTfLiteDynamic || t->allocation_type == kTfLitePersistentRo)) {
      TfLiteTensorDataFree(t);      // whoever made it so does it again when it is prepared
      t->allocation_type = kTfLiteArenaRw;
    }
  }
  free(host->plan);
  host->plan = TfLiteIntArrayCopy(host->model_plan);
}

TfLiteStatus pl_host_read_back(pl_host *host, int index) {
  TfLiteTensor *t = &host->context.tensors[index];
  if (!t->data_is_stale) return kTfLiteOk;
  if (t->delegate == NULL || t->buffer_handle == kTfLiteNullBufferHandle) {
    report(&host->context, "tensor %d is stale and has no buffer handle", index);
    return kTfLiteError;
  }
  handle_call call = {&host->context, t};
  TfLiteStatus status = pl_guard.any(run_copy_from, &call, &host->context);
  if (status == kTfLiteOk) t->data_is_stale = false;
  return status;
}

// ---- Running ----

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
  host->invoking = "";
  TfLiteStatus status = pl_node_invoke(host, node);
  host->invoking = NULL;
  if (status != kTfLiteOk) return PL_FAILED;
  int found = 0;
  for (int i = 0; i < count; i++) {
    if (tensors[places[i].tensor].data.raw != places[i].data) found = PL_MOVED;
    if (places[i].band && memcmp(places[i].data + places[i].bytes, band, PL_BAND) != 0) return PL_OVERRUN;
  }
  return found;
}
