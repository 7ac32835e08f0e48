// A custom op that scales by what its options say, and functions by which tests read options.
#include <stdlib.h>

#include "pylite/custom_options.h"
#include "tensorflow/lite/c/common.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct {
  double scale;
  int64_t shift;
} state;

static void *init(TfLiteContext *context, const char *options, size_t length) {
  state *s = malloc(sizeof *s);
  (void)context;
  s->scale = pl_option_float(options, length, "scale", 1);
  s->shift = pl_option_int(options, length, "shift", 0);
  return s;
}

static void release(TfLiteContext *context, void *data) {
  (void)context;
  free(data);
}

static TfLiteStatus prepare(TfLiteContext *context, TfLiteNode *node) {
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]],
                               TfLiteIntArrayCopy(context->tensors[node->inputs->data[0]].dims));
}

static TfLiteStatus invoke(TfLiteContext *context, TfLiteNode *node) {
  const state *s = node->user_data;
  const TfLiteTensor *x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor *y = &context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < y->bytes / sizeof(float); i++) y->data.f[i] = (float)(s->scale * x->data.f[i] + s->shift);
  return kTfLiteOk;
}

EXPORT const TfLiteRegistration *Scale(void) {
  static const TfLiteRegistration registration = {.init = init, .free = release, .prepare = prepare, .invoke = invoke,
                                                  .custom_name = "Scale", .version = 1};
  return &registration;
}

EXPORT int64_t read_int(const void *options, size_t size, const char *name, int64_t otherwise) {
  return pl_option_int(options, size, name, otherwise);
}
EXPORT double read_float(const void *options, size_t size, const char *name, double otherwise) {
  return pl_option_float(options, size, name, otherwise);
}
EXPORT const char *read_string(const void *options, size_t size, const char *name, size_t *length) {
  return pl_option_string(options, size, name, length);
}
EXPORT int read_list(const void *options, size_t size, const char *name, double *values, int most) {
  return pl_option_list(options, size, name, values, most);
}
