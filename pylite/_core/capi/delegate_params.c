// TfLiteDelegateParams, which describe a partition to a delegate's kernel, or in PreviewDelegatePartitioning's result.
#include "host.h"

// Copies an array to *cursor, and moves *cursor past the copy.
static TfLiteIntArray *append(char **cursor, const TfLiteIntArray *from) {
  TfLiteIntArray *to = (TfLiteIntArray *)*cursor;
  memcpy(to, from, TfLiteIntArrayGetSizeInBytes(from->size));
  *cursor += TfLiteIntArrayGetSizeInBytes(from->size);
  return to;
}

static void *params_block(size_t head, const TfLiteIntArray *a, const TfLiteIntArray *b, const TfLiteIntArray *c) {
  return calloc(1, head + TfLiteIntArrayGetSizeInBytes(a->size) + TfLiteIntArrayGetSizeInBytes(b->size) +
                       TfLiteIntArrayGetSizeInBytes(c->size));
}

TfLiteDelegateParams *pl_delegate_params_new(TfLiteDelegate *delegate, const TfLiteIntArray *nodes,
                                             const TfLiteIntArray *inputs, const TfLiteIntArray *outputs) {
  TfLiteDelegateParams *params = params_block(sizeof(*params), nodes, inputs, outputs);
  if (params == NULL) return NULL;
  char *cursor = (char *)(params + 1);
  params->delegate = delegate;
  params->nodes_to_replace = append(&cursor, nodes);
  params->input_tensors = append(&cursor, inputs);
  params->output_tensors = append(&cursor, outputs);
  return params;
}

TfLiteOpaqueDelegateParams *pl_opaque_delegate_params_new(TfLiteDelegate *delegate, const TfLiteIntArray *nodes,
                                                          const TfLiteIntArray *inputs, const TfLiteIntArray *outputs) {
  TfLiteOpaqueDelegateParams *params = params_block(sizeof(*params), nodes, inputs, outputs);
  if (params == NULL) return NULL;
  char *cursor = (char *)(params + 1);
  params->delegate = (TfLiteOpaqueDelegate *)delegate;
  const TfLiteOpaqueDelegateBuilder *builder = pl_opaque_builder(delegate);
  params->delegate_data = builder != NULL ? builder->data : delegate->data_;
  params->nodes_to_replace = append(&cursor, nodes);
  params->input_tensors = append(&cursor, inputs);
  params->output_tensors = append(&cursor, outputs);
  return params;
}

int pl_host_add_preview(pl_host *host, const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                        const TfLiteIntArray *outputs) {
  TfLiteDelegateParams *all = realloc(host->previews, sizeof(*all) * (size_t)(host->num_previews + 1));
  if (all == NULL) return -1;
  host->previews = all;
  TfLiteDelegateParams *one = pl_delegate_params_new(NULL, nodes, inputs, outputs);
  if (one == NULL) return -1;
  all[host->num_previews++] = *one;
  return 0;
}

void pl_host_drop_previews(pl_host *host) {
  for (int i = 0; i < host->num_previews; i++) {
    free((TfLiteDelegateParams *)host->previews[i].nodes_to_replace - 1);      // the struct is before its first array
  }
  free(host->previews);
  host->previews = NULL;
  host->num_previews = 0;
}
