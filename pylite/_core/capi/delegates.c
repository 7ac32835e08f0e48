// Applies a delegate, adds the nodes of its kernels, and removes them again.
#include "host.h"

typedef struct delegate_call {
  TfLiteContext *context;
  TfLiteDelegate *delegate;
} delegate_call;

static TfLiteStatus run_apply(void *arguments) {
  const delegate_call *c = arguments;
  if (c->delegate->Prepare != NULL) return c->delegate->Prepare(c->context, c->delegate);
  const TfLiteOpaqueDelegateBuilder *b = pl_opaque_builder(c->delegate);
  if (b != NULL && b->Prepare != NULL) {
    return b->Prepare((TfLiteOpaqueContext *)c->context, (TfLiteOpaqueDelegate *)c->delegate, b->data);
  }
  c->context->ReportError(c->context, "the delegate has no Prepare");
  return kTfLiteDelegateError;
}

TfLiteStatus pl_host_apply_delegate(pl_host *host, TfLiteDelegate *delegate) {
  delegate_call call = {&host->context, delegate};
  host->delegating = true;
  TfLiteStatus status = pl_trapped(run_apply, &call, &host->context);
  host->delegating = false;
  pl_host_drop_previews(host);
  return pl_table_changed(host) ? kTfLiteDelegateError : status;
}

typedef struct destroy_call {
  void (*destroy)(void *);
  void *delegate;
} destroy_call;

static TfLiteStatus run_destroy(void *arguments) {
  const destroy_call *c = arguments;
  c->destroy(c->delegate);
  return kTfLiteOk;
}

void pl_delegate_destroy(void (*destroy)(void *), void *delegate) {
  destroy_call call = {destroy, delegate};
  pl_guard.any(run_destroy, &call, NULL);
}

TfLiteStatus pl_host_add_delegate_node(pl_host *host, const TfLiteRegistration *reg, TfLiteOperator *op,
                                       TfLiteDelegate *delegate, const TfLiteIntArray *nodes,
                                       const TfLiteIntArray *inputs, const TfLiteIntArray *outputs) {
  pl_node *node = pl_node_new(host);
  if (node == NULL) return kTfLiteError;
  pl_node_set_kernel(node, reg, op);
  node->trapped = true;
  node->reg.builtin_code = kTfLiteBuiltinDelegate;
  if (op != NULL) node->reg.custom_name = op->custom_name;
  TfLiteNode *n = &node->node;
  n->delegate = delegate;
  n->inputs = TfLiteIntArrayCopy(inputs);
  n->outputs = TfLiteIntArrayCopy(outputs);
  n->intermediates = TfLiteIntArrayCreate(0);
  n->temporaries = TfLiteIntArrayCreate(0);
  node->inputs = TfLiteIntArrayCopy(inputs);
  n->builtin_data = op != NULL ? (void *)pl_opaque_delegate_params_new(delegate, nodes, inputs, outputs)
                               : (void *)pl_delegate_params_new(delegate, nodes, inputs, outputs);
  if (n->inputs == NULL || n->outputs == NULL || n->intermediates == NULL || n->temporaries == NULL ||
      node->inputs == NULL || n->builtin_data == NULL) {
    return kTfLiteError;
  }
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

void pl_host_undo_delegates(pl_host *host) {
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
      TfLiteTensorDataFree(t);      // set again by the next prepare() that needs it
      t->allocation_type = kTfLiteArenaRw;
    }
  }
  free(host->plan);
  host->plan = TfLiteIntArrayCopy(host->model_plan);
}
