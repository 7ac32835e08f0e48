// Buffer handles: with one, a delegate keeps the contents of a tensor in its own memory until the host reads them back.
#include "host.h"

typedef struct handle_call {
  TfLiteContext *context;
  TfLiteTensor *tensor;
} handle_call;

static TfLiteStatus run_free_handle(void *arguments) {
  const handle_call *call = arguments;
  TfLiteTensor *t = call->tensor;
  TfLiteDelegate *d = t->delegate;
  const TfLiteOpaqueDelegateBuilder *b = pl_opaque_builder(d);
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
  const TfLiteOpaqueDelegateBuilder *b = pl_opaque_builder(d);
  if (b != NULL) {
    return b->CopyFromBufferHandle == NULL ? kTfLiteError : b->CopyFromBufferHandle(
        (TfLiteOpaqueContext *)call->context, (TfLiteOpaqueDelegate *)d, b->data, t->buffer_handle,
        (TfLiteOpaqueTensor *)t);
  }
  return d->CopyFromBufferHandle == NULL ? kTfLiteError
                                         : d->CopyFromBufferHandle(call->context, d, t->buffer_handle, t);
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
