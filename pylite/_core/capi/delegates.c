// Delegates: applied, their kernels made and taken out again, their buffers.
#include "host.h"

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

void pl_host_free_handles(pl_host *host) {
  TfLiteContext *c = &host->context;
  for (size_t i = 0; i < c->tensors_size; i++) {
    TfLiteTensor *t = &c->tensors[i];
    handle_call call = {c, t};
    if (t->buffer_handle != kTfLiteNullBufferHandle && t->delegate != NULL) pl_trapped(run_free_handle, &call, c);
  }
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
  c->context->ReportError(c->context, "the delegate has no Prepare");
  return kTfLiteDelegateError;
}

TfLiteStatus pl_host_apply(pl_host *host, TfLiteDelegate *delegate) {
  delegate_call call = {&host->context, delegate};
  host->delegating = true;
  TfLiteStatus status = pl_trapped(run_apply, &call, &host->context);
  host->delegating = false;
  pl_host_drop_previews(host);
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

static TfLiteDelegateParams *params_new(TfLiteDelegate *delegate, const TfLiteIntArray *nodes,
                                        const TfLiteIntArray *inputs, const TfLiteIntArray *outputs) {
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

int pl_host_add_preview(pl_host *host, const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                        const TfLiteIntArray *outputs) {
  TfLiteDelegateParams *all = realloc(host->previews, sizeof(*all) * (size_t)(host->num_previews + 1));
  if (all == NULL) return -1;
  host->previews = all;
  TfLiteDelegateParams *one = params_new(NULL, nodes, inputs, outputs);
  if (one == NULL) return -1;
  all[host->num_previews++] = *one;
  return 0;
}

void pl_host_drop_previews(pl_host *host) {
  for (int i = 0; i < host->num_previews; i++) {
    free((TfLiteDelegateParams *)host->previews[i].nodes_to_replace - 1);      // the arrays stand behind the struct
  }
  free(host->previews);
  host->previews = NULL;
  host->num_previews = 0;
}

TfLiteStatus pl_host_delegate_node(pl_host *host, const TfLiteRegistration *reg, TfLiteOperator *op,
                                   TfLiteDelegate *delegate, const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                                   const TfLiteIntArray *outputs) {
  pl_node *node = pl_node_new(host);
  if (node == NULL) return kTfLiteError;
  pl_node_set_kernel(node, reg, op);
  node->trapped = true;
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
                               : (void *)params_new(delegate, nodes, inputs, outputs);
  if (n->inputs == NULL || n->outputs == NULL || n->temporaries == NULL || n->builtin_data == NULL) return kTfLiteError;
  TfLiteStatus status = pl_node_init(host, node, n->builtin_data, 0);
  if (status != kTfLiteOk) return status;
  for (int i = 0; i < outputs->size; i++) {
    TfLiteTensor *t = &host->context.tensors[outputs->data[i]];
    if (t->delegate != NULL && t->delegate != delegate) {
      host->context.ReportError(&host->context, "tensor %d already belongs to another delegate", outputs->data[i]);
      return kTfLiteError;
    }
    t->delegate = delegate;
  }
  return kTfLiteOk;
}

// Takes the graph back to the model's.
void pl_host_undo(pl_host *host) {
  for (int i = host->model_nodes; i < host->num_nodes; i++) pl_node_free(host, host->nodes[i]);
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
    host->context.ReportError(&host->context, "tensor %d is stale and has no buffer handle", index);
    return kTfLiteError;
  }
  handle_call call = {&host->context, t};
  TfLiteStatus status = pl_guard.any(run_copy_from, &call, &host->context);
  if (status == kTfLiteOk) t->data_is_stale = false;
  return status;
}
