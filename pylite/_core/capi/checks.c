// Checks what a plug-in did to its node and tensors in prepare() and invoke(), and undoes changes that would harm the
// host.
#include "host.h"

#include <malloc.h>
#include <stdio.h>

static const uint64_t band = 0x5ac3963ca5690ff1u;

// Written and compared by words: this file is compiled for size, which makes memcmp() compare byte by byte.
void pl_write_band(char *start) {
  for (size_t i = 0; i < PL_BAND; i += sizeof(band)) memcpy(start + i, &band, sizeof(band));
}

static bool band_is(const char *start, uint64_t expected) {
  uint64_t differs = 0, word;
  for (size_t i = 0; i < PL_BAND; i += sizeof(word)) {
    memcpy(&word, start + i, sizeof(word));
    differs |= word ^ expected;
  }
  return differs == 0;
}

bool pl_band_intact(const char *start) { return band_is(start, band); }

TfLiteStatus pl_host_allocate(pl_host *host, TfLiteTensor *t, size_t bytes) {
  char *data = bytes <= host->max_bytes ? realloc(t->data.raw, bytes + PL_BAND) : NULL;
  if (data == NULL) return kTfLiteError;
  pl_write_band(data + bytes);
  t->data.raw = data;
  t->bytes = bytes;
  host->allocated[t - host->context.tensors] = (pl_allocated){data, bytes};
  return kTfLiteOk;
}

// Was the band after a tensor overwritten?  If the plug-in has freed the memory and been given the same address again,
// there is no band: the block is too small for one, or is fresh and holds zeros there.
static bool overrun(const pl_host *host, int tensor) {
  const TfLiteTensor *t = &host->context.tensors[tensor];
  const pl_allocated *a = &host->allocated[tensor];
  if (t->data.raw == NULL || a->data != t->data.raw || a->bytes != t->bytes) return false;
  const char *end = t->data.raw + t->bytes;
  return malloc_usable_size(t->data.raw) >= t->bytes + PL_BAND && !pl_band_intact(end) && !band_is(end, 0);
}

int pl_node_overran(const pl_host *host, const pl_node *node) {
  const TfLiteIntArray *lists[] = {node->node.outputs, node->node.temporaries};
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < lists[k]->size; i++) {
      int tensor = lists[k]->data[i];
      if (tensor >= 0 && (size_t)tensor < host->context.tensors_size && overrun(host, tensor)) return tensor;
    }
  }
  return -1;
}

void pl_tensor_text(const pl_host *host, int tensor, char *text, size_t size) {
  const TfLiteTensor *t = &host->context.tensors[tensor];
  size_t length = (size_t)snprintf(text, size, "tensor %d '%.60s' of shape [", tensor, t->name != NULL ? t->name : "");
  for (int i = 0; t->dims != NULL && i < t->dims->size && length < size; i++) {
    length += (size_t)snprintf(text + length, size - length, "%s%d", i > 0 ? ", " : "", t->dims->data[i]);
  }
  if (length < size) snprintf(text + length, size - length, "] (%zu bytes)", t->bytes);
}

// If *current differs from `before`, replaces it by `before` and returns true; else frees `before`.
static bool restored(TfLiteIntArray **current, TfLiteIntArray *before) {
  if (before == NULL || TfLiteIntArrayEqual(*current, before)) {
    free(before);
    return false;
  }
  free(*current);
  *current = before;
  return true;
}

void pl_remember_operands(const pl_node *node, pl_operands *before) {
  before->inputs = TfLiteIntArrayCopy(node->node.inputs);
  before->outputs = TfLiteIntArrayCopy(node->node.outputs);
  before->intermediates = node->node.intermediates;
}

TfLiteStatus pl_check_operands(pl_host *host, pl_node *node, const pl_operands *before) {
  TfLiteContext *context = &host->context;
  bool inputs = restored(&node->node.inputs, before->inputs), outputs = restored(&node->node.outputs, before->outputs);
  if (node->node.temporaries == NULL) node->node.temporaries = TfLiteIntArrayCreate(0);     // it was freed
  if (node->node.temporaries == NULL) return kTfLiteError;
  if (node->node.intermediates != before->intermediates) {
    context->ReportError(context, "it wrote to node->intermediates, where node->temporaries was before TensorFlow 2.0: "
                                  "plug-ins built for that layout are not supported");
    return kTfLiteError;
  }
  if (inputs || outputs) {
    context->ReportError(context, "it changed node->%s: the operands of a node are the model's",
                         inputs ? "inputs" : "outputs");
    return kTfLiteError;
  }
  return kTfLiteOk;
}

bool pl_table_changed(pl_host *host) {
  TfLiteContext *context = &host->context;
  if (context->tensors == host->tensors && context->tensors_size == host->num_tensors) return false;
  context->tensors = host->tensors;
  context->tensors_size = host->num_tensors;
  context->ReportError(context, "it changed context->tensors or context->tensors_size: the table is the host's");
  return true;
}

void pl_watch(const pl_host *host, pl_watched *watched, int count) {
  for (int i = 0; i < count; i++) {
    pl_watched *w = &watched[i];
    const TfLiteTensor *t = &host->context.tensors[w->tensor];
    w->type = t->type;
    w->where = t->allocation_type;
    w->data = t->data.raw;
    w->bytes = t->bytes;
    w->dims = t->dims;
    w->rank = t->dims != NULL ? t->dims->size : -1;
    int kept = w->rank < PL_WATCHED_DIMS ? w->rank : PL_WATCHED_DIMS;
    for (int k = 0; k < kept; k++) w->shape[k] = t->dims->data[k];
  }
}

// Was the shape of a tensor changed?  Then restores it, as far as it was kept.
static bool dims_changed(TfLiteTensor *t, const pl_watched *w) {
  int kept = w->rank < PL_WATCHED_DIMS ? w->rank : PL_WATCHED_DIMS;
  bool same = t->dims != NULL ? t->dims->size == w->rank : w->rank < 0;
  for (int i = 0; same && i < kept; i++) same = t->dims->data[i] == w->shape[i];
  if (same) return false;
  if (t->dims != w->dims) {     // another array: the plug-in may have freed the one before
    free(t->dims);
    t->dims = w->rank >= 0 ? TfLiteIntArrayCreate(w->rank) : NULL;
    for (int i = kept; t->dims != NULL && i < w->rank; i++) t->dims->data[i] = 0;
  }
  if (t->dims == NULL) return true;
  t->dims->size = w->rank;
  for (int i = 0; i < kept; i++) t->dims->data[i] = w->shape[i];
  return true;
}

bool pl_watched_changed(pl_host *host, const pl_watched *watched, int count) {
  TfLiteContext *context = &host->context;
  bool changed = false;
  for (int i = 0; i < count; i++) {
    const pl_watched *w = &watched[i];
    TfLiteTensor *t = &context->tensors[w->tensor];
    const char *what = NULL;
    if (t->type != w->type) what = "type";
    if (t->allocation_type != w->where) what = "allocation type";
    t->type = w->type;
    t->allocation_type = w->where;
    if (w->where != kTfLiteDynamic || w->input) {
      if (dims_changed(t, w)) what = "shape";
      if (t->bytes != w->bytes) what = "size";
      if (t->data.raw != w->data) what = "data pointer";
      t->bytes = w->bytes;
      t->data.raw = w->data;
    }
    if (what == NULL) continue;
    context->ReportError(context, "its invoke() changed the %s of tensor %d, which only prepare() may do", what,
                         w->tensor);
    changed = true;
  }
  return changed;
}
