// A delegate for tests: runs float ADD and MUL nodes, records its calls, and fails where its options say so.
//
// Options: fail=create|prepare|init|kernel|invoke, flags=N, handles=1 (results stay in its own buffers), each=1 (one
// call per node), preview=1, edit=1 (writes into the inputs of nodes it does not take), dynamic=1 (outputs are sized in
// invoke).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/builtin_op_data.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"
#include "trace.h"

static void note(const char* what, const TfLiteIntArray* a, const TfLiteIntArray* b) {
  char* at = trace + strlen(trace);
  at += sprintf(at, "%s", what);
  for (int i = 0; a && i < a->size; i++) at += sprintf(at, " %d", a->data[i]);
  if (b) at += sprintf(at, " |");
  for (int i = 0; b && i < b->size; i++) at += sprintf(at, " %d", b->data[i]);
  sprintf(at, "\n");
}

typedef struct {
  char fail[16];
  int handles, each, preview, edit, dynamic, next_handle;
  float* buffers[64];
} Options;

typedef struct {
  int count, codes[32], inputs[32][2], outputs[32];
  Options* options;
  float* values[256];
} Kernel;

static int fails(const Options* o, const char* where) { return strcmp(o->fail, where) == 0; }

static void* init(TfLiteContext* context, const char* buffer, size_t length) {
  const TfLiteDelegateParams* p = (const TfLiteDelegateParams*)buffer;
  Options* o = p->delegate->data_;
  note("init", p->nodes_to_replace, NULL);
  note(" ends", p->input_tensors, p->output_tensors);
  if (length != 0) note("length", NULL, NULL);
  if (fails(o, "init")) {
    context->ReportError(context, "no kernel for %d nodes", p->nodes_to_replace->size);
    return (void*)-1;
  }
  Kernel* k = calloc(1, sizeof(Kernel));
  k->options = o;
  for (int i = 0; i < p->nodes_to_replace->size; i++) {
    TfLiteNode* node;
    TfLiteRegistration* reg;
    if (context->GetNodeAndRegistration(context, p->nodes_to_replace->data[i], &node, &reg) != kTfLiteOk) return NULL;
    k->codes[i] = reg->builtin_code;
    k->inputs[i][0] = node->inputs->data[0];
    k->inputs[i][1] = node->inputs->data[1];
    k->outputs[i] = node->outputs->data[0];
    if (((TfLiteAddParams*)node->builtin_data)->activation == kTfLiteActRelu) note("relu", NULL, NULL);
  }
  k->count = p->nodes_to_replace->size;
  return k;
}

static void release(TfLiteContext* context, void* data) {
  note("free", NULL, NULL);
  Kernel* k = data;
  for (int i = 0; i < 256; i++) free(k->values[i]);
  free(k);
}

static TfLiteStatus prepare(TfLiteContext* context, TfLiteNode* node) {
  Kernel* k = node->user_data;
  TfLiteDelegateParams* p = node->builtin_data;
  note("prepare", context->tensors[node->inputs->data[0]].dims, context->tensors[node->outputs->data[0]].dims);
  if (p->delegate != node->delegate) note("not mine", NULL, NULL);
  if (fails(k->options, "kernel")) return kTfLiteError;
  for (int i = 0; i < node->outputs->size; i++) {
    TfLiteTensor* t = &context->tensors[node->outputs->data[i]];
    if (t->data.raw) note("data", NULL, NULL);
    if (k->options->handles && t->buffer_handle < 0) {
      t->buffer_handle = k->options->next_handle++;
      t->delegate = node->delegate;
    }
    if (k->options->dynamic) {
      if (t->allocation_type != kTfLiteDynamic) TfLiteTensorDataFree(t);
      t->allocation_type = kTfLiteDynamic;
      continue;
    }
    TF_LITE_ENSURE_STATUS(context->ResizeTensor(
        context, t, TfLiteIntArrayCopy(context->tensors[node->inputs->data[0]].dims)));
  }
  return kTfLiteOk;
}

static float* value(TfLiteContext* context, Kernel* k, int index) {
  TfLiteTensor* t = &context->tensors[index];
  if (k->values[index]) return k->values[index];
  if (k->options->handles && t->data_is_stale && t->buffer_handle >= 0) return k->options->buffers[t->buffer_handle];
  return t->data.f;
}

static TfLiteStatus invoke(TfLiteContext* context, TfLiteNode* node) {
  Kernel* k = node->user_data;
  note("invoke", NULL, NULL);
  if (fails(k->options, "invoke")) {
    context->ReportError(context, "the device is gone");
    return kTfLiteError;
  }
  for (int i = 0; i < node->outputs->size && k->options->dynamic; i++) {
    TF_LITE_ENSURE_STATUS(context->ResizeTensor(context, &context->tensors[node->outputs->data[i]],
                                                TfLiteIntArrayCopy(context->tensors[node->inputs->data[0]].dims)));
  }
  size_t count = context->tensors[node->outputs->data[0]].bytes / sizeof(float);
  for (int i = 0; i < k->count; i++) {
    const float *a = value(context, k, k->inputs[i][0]), *b = value(context, k, k->inputs[i][1]);
    free(k->values[k->outputs[i]]);
    float* y = k->values[k->outputs[i]] = malloc(count * sizeof(float));
    const TfLiteTensor* t = &context->tensors[k->inputs[i][1]];
    size_t n = t->allocation_type == kTfLiteMmapRo ? t->bytes / sizeof(float) : count;   // a constant row is repeated
    for (size_t j = 0; j < count; j++) y[j] = k->codes[i] == kTfLiteBuiltinAdd ? a[j] + b[j % n] : a[j] * b[j % n];
  }
  for (int i = 0; i < node->outputs->size; i++) {
    TfLiteTensor* t = &context->tensors[node->outputs->data[i]];
    const float* y = k->values[node->outputs->data[i]];
    if (k->options->handles) {
      free(k->options->buffers[t->buffer_handle]);
      float* copy = k->options->buffers[t->buffer_handle] = malloc(count * sizeof(float));
      memcpy(copy, y, count * sizeof(float));
      t->data_is_stale = true;
    } else {
      memcpy(t->data.f, y, count * sizeof(float));
    }
  }
  return kTfLiteOk;
}

static TfLiteStatus copy_from(TfLiteContext* context, TfLiteDelegate* delegate, TfLiteBufferHandle handle,
                              TfLiteTensor* t) {
  Options* o = delegate->data_;
  char text[32];
  sprintf(text, "copy %d", handle);
  note(text, NULL, NULL);
  if (fails(o, "copy")) return kTfLiteError;
  memcpy(t->data.raw, o->buffers[handle], t->bytes);
  return kTfLiteOk;
}

static void free_handle(TfLiteContext* context, TfLiteDelegate* delegate, TfLiteBufferHandle* handle) {
  Options* o = delegate->data_;
  char text[32];
  sprintf(text, "free handle %d", *handle);
  note(text, NULL, NULL);
  free(o->buffers[*handle]);
  o->buffers[*handle] = NULL;
  *handle = -1;
}

static TfLiteStatus claim(TfLiteContext* context, TfLiteDelegate* delegate, const TfLiteIntArray* nodes) {
  TfLiteRegistration r;
  memset(&r, 0, sizeof(r));
  r.init = init;
  r.free = release;
  r.prepare = prepare;
  r.invoke = invoke;
  r.custom_name = "AddMul";
  r.version = 1;
#ifdef OLD      // as binaries made before 2022 pass it
  typedef struct { char bytes[64]; } Old;
  Old old;
  memcpy(&old, &r, sizeof(old));
  typedef TfLiteStatus (*Replace)(TfLiteContext*, Old, const TfLiteIntArray*, TfLiteDelegate*);
  volatile char dirt[256];
  for (int i = 0; i < 256; i++) dirt[i] = (char)0xAB;
  return ((Replace)context->ReplaceNodeSubsetsWithDelegateKernels)(context, old, nodes, delegate);
#else
  return context->ReplaceNodeSubsetsWithDelegateKernels(context, r, nodes, delegate);
#endif
}

static TfLiteStatus delegate_prepare(TfLiteContext* context, TfLiteDelegate* delegate) {
  Options* o = delegate->data_;
  TfLiteIntArray* plan;
  TF_LITE_ENSURE_STATUS(context->GetExecutionPlan(context, &plan));
  note("Prepare", plan, NULL);
  if (fails(o, "prepare")) {
    context->ReportError(context, "no device");
    return kTfLiteError;
  }
  TfLiteIntArray* nodes = TfLiteIntArrayCreate(plan->size);
  nodes->size = 0;
  for (int i = 0; i < plan->size; i++) {
    TfLiteNode* node;
    TfLiteRegistration* reg;
    TF_LITE_ENSURE_STATUS(context->GetNodeAndRegistration(context, plan->data[i], &node, &reg));
    if (reg->builtin_code == kTfLiteBuiltinAdd || reg->builtin_code == kTfLiteBuiltinMul) {
      nodes->data[nodes->size++] = plan->data[i];
    } else if (o->edit && reg->builtin_code != kTfLiteBuiltinDelegate) {
      note("edit", node->inputs, NULL);
      node->inputs->data[0] = 0;
    }
  }
  if (o->preview) {
    TfLiteDelegateParams* params;
    int count;
    TF_LITE_ENSURE_STATUS(context->PreviewDelegatePartitioning(context, nodes, &params, &count));
    for (int i = 0; i < count; i++) {
      note("preview", params[i].nodes_to_replace, NULL);
      note(" ends", params[i].input_tensors, params[i].output_tensors);
    }
  }
  TfLiteStatus status = kTfLiteOk;
  if (o->each) {
    TfLiteIntArray* one = TfLiteIntArrayCreate(1);
    for (int i = 0; i < nodes->size && status == kTfLiteOk; i++) {
      one->data[0] = nodes->data[i];
      status = claim(context, delegate, one);
    }
    TfLiteIntArrayFree(one);
  } else {
    status = claim(context, delegate, nodes);
  }
  TfLiteIntArrayFree(nodes);
  return status;
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report_error)(const char*)) {
  TfLiteDelegate* d = calloc(1, sizeof(TfLiteDelegate));
  Options* o = calloc(1, sizeof(Options));
  d->data_ = o;
  d->Prepare = delegate_prepare;
  d->CopyFromBufferHandle = copy_from;
  d->FreeBufferHandle = free_handle;
  for (size_t i = 0; i < count; i++) {
    int n = atoi(values[i]);
    if (!strcmp(keys[i], "fail")) strncpy(o->fail, values[i], 15);
    if (!strcmp(keys[i], "flags")) d->flags = n;
    if (!strcmp(keys[i], "handles")) o->handles = n;
    if (!strcmp(keys[i], "each")) o->each = n;
    if (!strcmp(keys[i], "preview")) o->preview = n;
    if (!strcmp(keys[i], "edit")) o->edit = n;
    if (!strcmp(keys[i], "dynamic")) o->dynamic = n;
  }
  if (fails(o, "create")) {
    report_error("no device was found");
    free(o);
    free(d);
    return NULL;
  }
  note("create", NULL, NULL);
  return d;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) {
  note("destroy", NULL, NULL);
  free(delegate->data_);
  free(delegate);
}
