// Ops and delegates that break the rules.  Their option, a letter, selects which one; set_fault() does for the delegate.
#include <pthread.h>
#include <stdlib.h>

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"

static char fault;

TFL_CAPI_EXPORT void set_fault(char which) { fault = which; }

static void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  (void)length;
  if (buffer[0] == 'i') context->ReportError(context, "init is pleased");
  return (void*)(size_t)buffer[0];
}

enum { REPORTERS = 4, REPORTED = 5000 };

static void* Complain(void* context) {
  for (int i = 0; i < REPORTED; i++) ((TfLiteContext*)context)->ReportError(context, "row %d is out of range", i);
  return NULL;
}

static TfLiteIntArray* Longer(const TfLiteIntArray* a, int last) {
  TfLiteIntArray* b = TfLiteIntArrayCreate(a->size + 1);
  for (int i = 0; i < a->size; i++) b->data[i] = a->data[i];
  b->data[a->size] = last;
  return b;
}

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  char what = (char)(size_t)node->user_data;
  const TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  switch (what) {
    case '1': node->inputs->data[0] = node->outputs->data[0]; break;
    case '2': node->outputs->data[0] = node->inputs->data[0]; break;
    case '3': {
      TfLiteIntArray* other = Longer(node->inputs, 0);
      TfLiteIntArrayFree(node->inputs);
      node->inputs = other;
      break;
    }
    case '4': node->inputs->size = 0; break;
    case '5': {
      TfLiteIntArray* other = Longer(node->temporaries, 0);     // a tensor of the model
      TfLiteIntArrayFree(node->temporaries);
      node->temporaries = other;
      break;
    }
    case '6':
      TfLiteIntArrayFree(node->temporaries);
      node->temporaries = NULL;
      break;
    case '7': context->tensors = NULL; return kTfLiteOk;
    case '0': {     // its own shape, twice
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, y->dims));
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, y->dims));
      return kTfLiteOk;
    }
    case 'g': {     // an input in memory that the host allocates, which invoke() makes larger
      TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
      input->allocation_type = kTfLiteDynamic;
      input->data.raw = NULL;
      context->ResizeTensor(context, input, TfLiteIntArrayCopy(x->dims));
      break;
    }
    case 'G': {     // a tensor of the arena that is not its own
      TfLiteTensor* input = &context->tensors[node->inputs->data[0]];
      TfLiteIntArray* dims = TfLiteIntArrayCopy(x->dims);
      dims->data[0] *= 1000;
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, TfLiteIntArrayCopy(x->dims)));
      return context->ResizeTensor(context, input, dims);
    }
    case 'x': return context->ResizeTensor(context, y, x->dims);    // the shape of another tensor
    case 'Y': y->type = kTfLiteInt64; break;
    case 'P':       // without contents
      TfLiteTensorDataFree(y);
      y->allocation_type = kTfLitePersistentRo;
      return kTfLiteOk;
    case 'p': context->ReportError(context, "prepare is %s", "pleased"); break;
    case 'd':
    case 'e':
    case 'f':
      TfLiteTensorDataFree(y);
      y->allocation_type = kTfLiteDynamic;
      return kTfLiteOk;
    case 'r':
      TfLiteTensorDataFree(y);
      y->allocation_type = kTfLitePersistentRo;
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, TfLiteIntArrayCopy(x->dims)));
      y->data.f[y->bytes / 4] = 1;
      return kTfLiteOk;
  }
  return context->ResizeTensor(context, y, TfLiteIntArrayCopy(x->dims));
}

static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  char what = (char)(size_t)node->user_data;
  TfLiteTensor* x = &context->tensors[node->inputs->data[0]];
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  size_t count = x->bytes / 4;
  switch (what) {
    case 'a': y->data.f[-1] = 1; break;
    case 'b': y->data.f[count] = 1; break;
    case 'D': y->allocation_type = kTfLiteDynamic; break;
    case 'M': y->allocation_type = kTfLiteMmapRo; break;
    case 'N': x->allocation_type = kTfLitePersistentRo; break;
    case 's': y->dims->data[0] = 1000; break;
    case 't': y->dims->size = 1; break;
    case 'u': x->dims->data[0] = 7; break;
    case 'v': y->bytes = 1 << 30; break;
    case 'w': x->bytes = 0; break;
    case 'y': y->type = kTfLiteString; break;
    case 'q': x->data.raw = y->data.raw; break;
    case '8': context->tensors = NULL; return kTfLiteOk;
    case 'c': x->data.f[0] = 9; break;
    case 'g': {
      TfLiteIntArray* dims = TfLiteIntArrayCopy(x->dims);
      dims->data[0] *= 1000;
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, x, dims));
      break;
    }
    case '9': context->tensors_size = 0; return kTfLiteOk;
    case 'l': context->ReportError(context, "invoke is pleased"); break;
    case 'T': {
      pthread_t threads[REPORTERS];
      for (int i = 0; i < REPORTERS; i++) pthread_create(&threads[i], NULL, Complain, context);
      for (int i = 0; i < REPORTERS; i++) pthread_join(threads[i], NULL);
      return kTfLiteError;
    }
    case 'Y':
      for (size_t i = 0; i < count; i++) y->data.i64[i] = (int64_t)x->data.f[i] + ((int64_t)1 << 40);
      return kTfLiteOk;
    case 'd':
    case 'e':
      TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, y, TfLiteIntArrayCopy(x->dims)));
      if (what == 'd') y->data.f[count] = 1;
      break;
    case 'f':       // its own memory, as large as before
      TfLiteTensorDataFree(y);
      if (y->dims->size != x->dims->size) {
        TfLiteIntArrayFree(y->dims);
        y->dims = TfLiteIntArrayCopy(x->dims);
      }
      TF_LITE_ENSURE_STATUS(TfLiteTensorRealloc(x->bytes, y));
      y->bytes = x->bytes;
      break;
    case 'r': return kTfLiteOk;
  }
  for (size_t i = 0; i < count; i++) y->data.f[i] = 2 * x->data.f[i];
  return kTfLiteOk;
}

TFL_CAPI_EXPORT const TfLiteRegistration* Register_FAULTY(void) {
  static const TfLiteRegistration r = {
      .init = Init, .prepare = Prepare, .invoke = Invoke, .custom_name = "Faulty", .version = 1};
  return &r;
}

TFL_CAPI_EXPORT const TfLiteRegistration* Register_IDLE(void) {
  static const TfLiteRegistration r = {.prepare = Prepare, .custom_name = "Faulty", .version = 1};
  return &r;
}

static TfLiteStatus Known(TfLiteContext* context, TfLiteNode* node) {
  (void)context, (void)node;
  return kTfLiteOk;
}

static TfLiteStatus DelegatePrepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  const int first[] = {1, 0};
  TfLiteRegistration r = {.prepare = Known, .invoke = Known, .custom_name = "mine"};
  if (fault == 'l') context->ReportError(context, "the delegate is pleased");
  if (fault == 'A' || fault == 'B') {       // the second subgraph, which the first one does not release
    TfLiteContext* other;
    TF_LITE_ENSURE_STATUS(context->AcquireSubgraphContext(context, 1, &other));
    if (fault == 'B' && other != context) return kTfLiteOk;
    return other->ReplaceNodeSubsetsWithDelegateKernels(other, r, (const TfLiteIntArray*)first, delegate);
  }
  return context->ReplaceNodeSubsetsWithDelegateKernels(context, r, (const TfLiteIntArray*)first,
                                                        fault == '0' ? NULL : delegate);
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report)(const char*)) {
  (void)keys, (void)values, (void)count, (void)report;
  TfLiteDelegate* delegate = calloc(1, sizeof(TfLiteDelegate));
  delegate->Prepare = DelegatePrepare;
  return delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { free(delegate); }
