// Creates, fills and frees the tables that plug-ins see.
#include "host.h"

#ifndef ADDED_TENSORS           // tests/fuzz/libfuzzer.py has fewer
#define ADDED_TENSORS 65536     // room for AddTensors, so that the table never moves; untouched pages take no memory
#endif

void pl_node_free(pl_host *host, pl_node *node) {
  pl_node_finalize(host, node);
  free(node->node.inputs);
  free(node->node.outputs);
  free(node->node.intermediates);
  free(node->node.temporaries);
  free(node->node.builtin_data);
  free(node->inputs);
  if (node->node.delegate == NULL) free((char *)node->reg.custom_name);    // else the delegate owns it
  if (node->identity != NULL) free(node->identity->custom_name);
  free(node->identity);
  if (node->owns_op) {
    free(node->op->custom_name);
    free(node->op);
  }
  free(node);
}

// The functions of the model's nodes.  Delegates can read these registrations, but pylite itself runs the nodes.
static TfLiteStatus not_callable(TfLiteContext *context, TfLiteNode *node) {
  (void)node;
  context->ReportError(context, "the kernels of pylite cannot be called by plug-ins");
  return kTfLiteError;
}

pl_host *pl_host_new(size_t tensors, void (*fill)(TfLiteContext *), const pl_callbacks *callbacks, void *python,
                     TfLiteExternalContext **externals) {
  pl_host *host = calloc(1, sizeof(pl_host));
  if (host == NULL) return NULL;
  host->capacity = tensors + ADDED_TENSORS;
  host->model_tensors = tensors;
  host->callbacks = callbacks;
  host->python = python;
  host->externals = externals;
  TfLiteContext *c = &host->context;
  c->tensors = calloc(host->capacity, sizeof(TfLiteTensor));
  host->allocated = calloc(host->capacity, sizeof(pl_allocated));
  c->impl_ = pl_no_access_new();
  if (c->tensors == NULL || host->allocated == NULL || c->impl_ == NULL) {
    pl_no_access_free(c->impl_);
    free(host->allocated);
    free(c->tensors);
    free(host);
    return NULL;
  }
  for (size_t i = 0; i < tensors; i++) c->tensors[i].buffer_handle = -1;
  c->tensors_size = host->num_tensors = tensors;
  host->tensors = c->tensors;
  c->recommended_num_threads = -1;
  fill(c);
  return host;
}

void pl_host_free(pl_host *host) {
  if (host == NULL) return;
  TfLiteContext *c = &host->context;
  for (int i = 0; i < host->num_nodes; i++) pl_node_free(host, host->nodes[i]);
  pl_host_free_handles(host);
  for (size_t i = 0; i < c->tensors_size; i++) {
    if (i < host->model_tensors) free((char *)c->tensors[i].name);
    TfLiteTensorFree(&c->tensors[i]);
  }
  pl_host_drop_previews(host);
  free(c->tensors);
  free(host->allocated);
  pl_no_access_free(c->impl_);
  free(host->nodes);
  free(host->plan);
  free(host->model_plan);
  free(host->plan_copy);
  free(host->inputs);
  free(host->outputs);
  free(host->variables);
  free(host->errors);
  free(host->name);
  pl_profiler_free(host->profiler);
  free(host);
}

int pl_host_set_tensor(pl_host *host, int index, const char *name, int type, const TfLiteIntArray *dims,
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
  return t->name != NULL && t->dims != NULL && (t->dims_signature != NULL || signature == NULL) ? 0 : -1;
}

int pl_host_set_quantization(pl_host *host, int index, const float *scales, const int64_t *zero_points, int count,
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

int pl_host_set_blockwise(pl_host *host, int index, int scale, int zero_point, int block_size, int axis) {
  TfLiteTensor *t = &host->context.tensors[index];
  TfLiteBlockwiseQuantization *q = malloc(sizeof(*q));
  if (q == NULL) return -1;
  *q = (TfLiteBlockwiseQuantization){scale, zero_point, block_size, axis};
  t->quantization.type = kTfLiteBlockwiseQuantization;
  t->quantization.params = q;
  return 0;
}

TfLiteSparsity *pl_host_add_sparsity(pl_host *host, int index, int dimensions) {
  TfLiteSparsity *s = calloc(1, sizeof(*s));
  if (s == NULL) return NULL;
  host->context.tensors[index].sparsity = s;
  s->dim_metadata = calloc((size_t)dimensions + 1, sizeof(*s->dim_metadata));
  if (s->dim_metadata == NULL) return NULL;
  s->dim_metadata_size = dimensions;
  return s;
}

pl_node *pl_node_new(pl_host *host) {
  pl_node **nodes = realloc(host->nodes, sizeof(pl_node *) * (size_t)(host->num_nodes + 1));
  if (nodes == NULL) return NULL;
  host->nodes = nodes;
  pl_node *node = calloc(1, sizeof(pl_node));
  if (node != NULL) nodes[host->num_nodes++] = node;
  return node;
}

int pl_host_add_node(pl_host *host, int builtin_code, const char *custom_name, int version,
                     const TfLiteIntArray *inputs, const TfLiteIntArray *outputs,
                     const TfLiteIntArray *intermediates, const void *params, size_t params_size,
                     const void *options, int options_size) {
  pl_node *node = pl_node_new(host);
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
  bool complete = n->inputs != NULL && n->outputs != NULL && n->intermediates != NULL && n->temporaries != NULL &&
                  node->inputs != NULL && (node->reg.custom_name != NULL || custom_name == NULL);
  return complete ? 0 : -1;
}
