// Custom ops for tests.  Their option, a letter, selects what they do.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/lite/c/common.h"
#include "trace.h"

static void note(const char* what, char kind, const char* more) {
  size_t at = strlen(trace);
  snprintf(trace + at, sizeof(trace) - at, "%s %c%s\n", what, kind, more);
}

typedef struct {
  char kind;
  int temporary, runs;
} Data;

static void* init(TfLiteContext* context, const char* buffer, size_t length) {
  char kind = length ? buffer[0] : '-';
  note("init", kind, "");
  if (kind == 'i') return (void*)-1;
  Data* data = calloc(1, sizeof(Data));
  data->kind = kind;
  data->temporary = -1;
  return data;
}

static void release(TfLiteContext* context, void* buffer) {
  note("free", ((Data*)buffer)->kind, "");
  free(buffer);
}

static TfLiteStatus temporaries(TfLiteContext* context, TfLiteNode* node, Data* data, TfLiteAllocationType where) {
  if (data->temporary < 0) TF_LITE_ENSURE_STATUS(context->AddTensors(context, 1, &data->temporary));
  TfLiteIntArrayFree(node->temporaries);
  node->temporaries = TfLiteIntArrayCreate(1);
  node->temporaries->data[0] = data->temporary;
  TfLiteTensor* t = &context->tensors[data->temporary];
  t->type = kTfLiteFloat32;
  t->allocation_type = where;
  TfLiteIntArray* dims = TfLiteIntArrayCreate(1);
  dims->data[0] = 4;
  return context->ResizeTensor(context, t, dims);
}

static TfLiteStatus prepare(TfLiteContext* context, TfLiteNode* node) {
  Data* data = node->user_data;
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  char more[64] = "";
  for (int i = 0; i < x->dims->size; i++) snprintf(more + strlen(more), 8, " %d", x->dims->data[i]);
  strcat(more, x->data.raw ? " data" : "");
  note("prepare", data->kind, more);
  TfLiteIntArray* dims = TfLiteIntArrayCopy(x->dims);
  switch (data->kind) {
    case 'p':
      TfLiteIntArrayFree(dims);
      context->ReportError(context, "cannot prepare %s %d", "this", 7);
      return kTfLiteError;
    case 'n':
      dims->data[0] = -3;
      return context->ResizeTensor(context, y, dims);
    case 'm': {
      TfLiteTensor other = *y;
      return context->ResizeTensor(context, &other, dims);
    }
    case 'x':
      TfLiteIntArrayFree(dims);
      return context->ResizeTensor(context, &context->tensors[node->inputs->data[0]], TfLiteIntArrayCreate(0));
    case 'd':
      y->data.raw = (char*)data;
      TfLiteIntArrayFree(dims);
      return kTfLiteOk;
    case 'y':
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, dims));
      y->bytes += 4;
      return kTfLiteOk;
    case 'g': {
      TfLiteIntArray* plan;
      TfLiteIntArrayFree(dims);
      return context->GetExecutionPlan(context, &plan);
    }
    case 'T':
      TF_LITE_ENSURE_STATUS(temporaries(context, node, data, kTfLiteArenaRw));
      break;
    case 'P':
      TF_LITE_ENSURE_STATUS(temporaries(context, node, data, kTfLiteArenaRwPersistent));
      break;
    case 'w':
      node->temporaries->size = 0;
      TfLiteIntArrayFree(node->temporaries);
      node->temporaries = TfLiteIntArrayCreate(1);
      node->temporaries->data[0] = 99999;
      break;
    case 'D':
      if (y->allocation_type != kTfLiteDynamic) {
        TfLiteTensorDataFree(y);
        y->allocation_type = kTfLiteDynamic;
      }
      TfLiteIntArrayFree(dims);
      return kTfLiteOk;
    case 'R': {
      if (y->allocation_type != kTfLitePersistentRo) {
        TfLiteTensorDataFree(y);
        y->allocation_type = kTfLitePersistentRo;
      }
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, dims));
      for (size_t i = 0; i < y->bytes / 4; i++) y->data.f[i] = 2.5f;
      return kTfLiteOk;
    }
  }
  return context->ResizeTensor(context, y, dims);
}

static TfLiteStatus invoke(TfLiteContext* context, TfLiteNode* node) {
  Data* data = node->user_data;
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  note("invoke", data->kind, "");
  data->runs++;
  size_t count = x->bytes / 4;
  switch (data->kind) {
    case 'v':
      context->ReportError(context, "cannot run");
      return kTfLiteError;
    case 'o':
      y->data.f[count] = 1;
      break;
    case 'q':
      y->data.raw = (char*)data;
      return kTfLiteOk;
    case 'z':
      return context->ResizeTensor(context, y, TfLiteIntArrayCreate(0));
    case 'R':
      return kTfLiteOk;
    case 'T':
    case 'P': {
      float* t = context->tensors[data->temporary].data.f;
      for (int i = 0; i < 4; i++) t[i] += 1;
      for (size_t i = 0; i < count; i++) y->data.f[i] = x->data.f[i] + (data->kind == 'P' ? t[0] : 0);
      return kTfLiteOk;
    }
    case 'D': {
      TfLiteIntArray* dims = TfLiteIntArrayCreate(1);   // the first element is the size
      dims->data[0] = x->bytes ? (int)x->data.f[0] : 0;
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, dims));
      for (int i = 0; i < y->dims->data[0]; i++) y->data.f[i] = (float)i;
      return kTfLiteOk;
    }
  }
  for (size_t i = 0; i < count; i++) y->data.f[i] = 2 * x->data.f[i];
  return kTfLiteOk;
}

TFL_CAPI_EXPORT const TfLiteRegistration* Register_TEST(void) {
  static const TfLiteRegistration registration = {init, release, prepare, invoke, NULL, 0, "Test", 1, NULL, NULL, 0};
  return &registration;
}

// As in binaries made before 2022: 64 bytes, followed by garbage.
TFL_CAPI_EXPORT const TfLiteRegistration* Register_OLD(void) {
  static struct {
    TfLiteRegistration registration;
  } old;
  memset(&old, 0xAB, sizeof(old));
  memcpy(&old, Register_TEST(), 64);
  return &old.registration;
}

TFL_CAPI_EXPORT const TfLiteRegistration* Register_NOTHING(void) { return NULL; }
TFL_CAPI_EXPORT int Register_NUMBER(void) { return 3; }
