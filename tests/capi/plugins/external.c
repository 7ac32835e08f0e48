// A custom op whose nodes share an external context, and what its Refresh saw.
#include <stddef.h>

#include "tensorflow/lite/c/common.h"

#define EXPORT __attribute__((visibility("default")))

static int refreshed, threads, shared, fails;

static TfLiteStatus refresh(TfLiteContext *context) {
  refreshed++;
  threads = context->recommended_num_threads;
  if (fails) context->ReportError(context, "no %d threads here", threads);
  return fails ? kTfLiteError : kTfLiteOk;
}

static TfLiteExternalContext external = {kTfLiteEdgeTpuContext, refresh};

static void *init(TfLiteContext *context, const char *options, size_t length) {
  (void)options, (void)length;
  if (context->GetExternalContext(context, kTfLiteEdgeTpuContext) == &external) shared++;
  context->SetExternalContext(context, kTfLiteEdgeTpuContext, &external);
  return NULL;
}

static TfLiteStatus prepare(TfLiteContext *context, TfLiteNode *node) {
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]],
                               TfLiteIntArrayCopy(context->tensors[node->inputs->data[0]].dims));
}

static TfLiteStatus invoke(TfLiteContext *context, TfLiteNode *node) {
  const TfLiteTensor *x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor *y = &context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < y->bytes / sizeof(float); i++) y->data.f[i] = (float)threads + 0 * x->data.f[i];
  return kTfLiteOk;
}

EXPORT const TfLiteRegistration *Shares(void) {
  static const TfLiteRegistration registration = {.init = init, .prepare = prepare, .invoke = invoke,
                                                  .custom_name = "Shares", .version = 1};
  return &registration;
}

EXPORT int seen(int what) { return what == 0 ? refreshed : what == 1 ? threads : shared; }
EXPORT void fail(int yes) { fails = yes; }
