// Ops and delegates at the edges of what the host allows: each letter, an op's option or a delegate's, is one case of
// tests/capi/test_edges.py.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tensorflow/lite/builtin_ops.h"
#include "tensorflow/lite/c/c_api_opaque.h"
#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/external/external_delegate_interface.h"

static char* page;      // without access rights until a handler gives them
static int handled;
static struct sigaction before;

static void Open(void) {
  mprotect(page, 4096, PROT_READ | PROT_WRITE);
  handled++;
}
static void Handle(int number) { Open(); }
static void HandleInfo(int number, siginfo_t* info, void* context) { Open(); }

TFL_CAPI_EXPORT int times_handled(void) { return handled; }

// Handlers of the program, as those of a garbage collector: they make the access possible.
TFL_CAPI_EXPORT void install(int with_info) {
  struct sigaction action = {0};
  if (with_info) action.sa_sigaction = HandleInfo, action.sa_flags = SA_SIGINFO;
  else action.sa_handler = Handle;
  sigaction(SIGSEGV, &action, &before);
}
TFL_CAPI_EXPORT void uninstall(void) { sigaction(SIGSEGV, &before, NULL); }

static void* Touch(void* nothing) {
  page[0] = 1;
  return NULL;
}

static void* Init(TfLiteContext* context, const char* buffer, size_t length) {
  return length > 0 ? (void*)(size_t)buffer[0] : NULL;
}

static TfLiteStatus Prepare(TfLiteContext* context, TfLiteNode* node) {
  const char what = (char)(size_t)node->user_data;
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  if (strchr("bzZD", what) != NULL && y->allocation_type != kTfLiteDynamic) {
    TfLiteTensorDataFree(y);
    y->allocation_type = kTfLiteDynamic;
  }
  if (what == 'h') y->buffer_handle = 3;      // no delegate's
  if (what == 'q') {
    const TfLiteTensor* k = &context->tensors[node->inputs->data[0]];
    if (k->params.scale != 0.5f || k->params.zero_point != -3) return kTfLiteError;
    const TfLiteBlockwiseQuantization* b = context->tensors[node->inputs->data[1]].quantization.params;
    if (context->tensors[node->inputs->data[1]].quantization.type != kTfLiteBlockwiseQuantization) return kTfLiteError;
    if (b->blocksize != 32 || b->zero_point != -1) return kTfLiteError;
  }
  if (what == 'p' && context->profiler != NULL) {
    void** methods = *(void***)context->profiler;
    const uint32_t handle = ((uint32_t(*)(void*, const char*, int, int64_t, int64_t))methods[2])(
        context->profiler, "prepare", 0, 0, 0);
    if (handle != 0) return kTfLiteError;
  }
  if (what == 'd') {      // a dynamic tensor without a shape
    int first;
    TF_LITE_ENSURE_STATUS(context->AddTensors(context, 1, &first));
    context->tensors[first].type = kTfLiteInt8;
    context->tensors[first].allocation_type = kTfLiteDynamic;
    TfLiteIntArray* list = TfLiteIntArrayCreate(1);
    list->data[0] = first;
    TfLiteIntArrayFree(node->temporaries);
    node->temporaries = list;
  }
  if (what == 't') {
    TfLiteIntArray* list = TfLiteIntArrayCreate(1);
    list->data[0] = -1;
    TfLiteIntArrayFree(node->temporaries);
    node->temporaries = list;
  }
  return context->ResizeTensorExplicit(context, y, 1, (int[]){4});
}

static TfLiteStatus Invoke(TfLiteContext* context, TfLiteNode* node) {
  const char what = (char)(size_t)node->user_data;
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  pthread_t thread;
  if (strchr("bzZD", what) != NULL) context->ResizeTensorExplicit(context, y, 1, (int[]){4});
  for (int i = 0; i < 4; i++) y->data.f[i] = (float)i;
  switch (what) {
    case 'n':
      TfLiteIntArrayFree(y->dims);
      y->dims = NULL;
      break;
    case 'D': y->data_is_stale = true; break;
    case 'X':       // of the input
      TfLiteIntArrayFree(context->tensors[node->inputs->data[0]].dims);
      context->tensors[node->inputs->data[0]].dims = TfLiteIntArrayCreate(1);
      context->tensors[node->inputs->data[0]].dims->data[0] = 4;
      break;
    case 'k':
      TfLiteIntArrayFree(y->dims);
      y->dims = TfLiteIntArrayCreate(1);
      y->dims->data[0] = 9;
      break;
    case 'b':
      y->data.f[4] = 1;       // past the end of what the host allocated, but `bytes` says that it is the plug-in's
      y->bytes = 20;
      y->dims->data[0] = 5;
      break;
    case 'z': memset(y->data.raw + y->bytes, 0, 64); break;       // as fresh memory has
    case 'Z': y->data.raw = realloc(y->data.raw, y->bytes); break;
    case 's':
    case 'T':
      if (page == NULL) page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      mprotect(page, 4096, PROT_NONE);
      if (what == 's') Touch(NULL);
      else if (pthread_create(&thread, NULL, Touch, NULL) == 0) pthread_join(thread, NULL);
      break;
    case 'r': raise(SIGSEGV); break;
    case 'i': install(1); break;
  }
  return kTfLiteOk;
}

static const char* ProfilingString(const TfLiteContext* context, const TfLiteNode* node) {
  return *(const char* volatile*)16;
}

TFL_CAPI_EXPORT TfLiteRegistration* Register_EDGE(void) {
  static TfLiteRegistration r = {.init = Init, .prepare = Prepare, .invoke = Invoke, .custom_name = "Edge"};
  return &r;
}

TFL_CAPI_EXPORT TfLiteRegistration* Register_NAMELESS(void) {       // its profiling_string() faults
  static TfLiteRegistration r = {.init = Init, .prepare = Prepare, .invoke = Invoke, .custom_name = "Edge"};
  r.profiling_string = ProfilingString;
  return &r;
}

TFL_CAPI_EXPORT TfLiteRegistration* Register_INIT_ONLY(void) {
  static TfLiteRegistration r = {.init = Init, .custom_name = "Edge"};
  return &r;
}

// A profiler's virtual functions are called at the offsets that C++ gives them.
static TfLiteStatus Profiled(TfLiteContext* context, TfLiteNode* node) {
  void* p = context->profiler;
  void** methods = p == NULL ? NULL : *(void***)p;
  uint32_t handles[300], extra = 0;
  for (int i = 0; i < 4; i++) context->tensors[node->outputs->data[0]].data.f[i] = (float)i;
  if (p == NULL) return kTfLiteOk;
  typedef uint32_t (*begin_fn)(void*, const char*, int, int64_t, int64_t);
  const begin_fn begin = (begin_fn)methods[2];
  void (*end)(void*, uint32_t) = (void (*)(void*, uint32_t))methods[4];
  if (begin(p, NULL, 0, 0, 0) != 0) return kTfLiteError;       // without a name
  for (int i = 0; i < 300; i++) extra += (handles[i] = begin(p, "open", 0, 0, 0)) == 0;
  for (int i = 0; i < 300; i++) end(p, handles[i]);
  end(p, handles[0]);                                          // has ended
  for (int i = 0; i < 1200; i++) end(p, begin(p, "part", i % 2 ? 8 : 4, i, 0));
  context->ReportError(context, "%u were too many", extra);
  return kTfLiteOk;
}

TFL_CAPI_EXPORT TfLiteRegistration* Register_PROFILED(void) {
  static TfLiteRegistration r = {.prepare = Prepare, .invoke = Profiled, .custom_name = "Edge"};
  return &r;
}

static TfLiteStatus OpaquePrepare(TfLiteOpaqueContext* c, TfLiteOpaqueNode* n) { return kTfLiteOk; }

static TfLiteStatus OpaqueInvoke(TfLiteOpaqueContext* c, TfLiteOpaqueNode* n) {
  float* y = TfLiteOpaqueTensorData(TfLiteOpaqueNodeGetOutput(c, n, 0));
  for (int i = 0; i < 4; i++) y[i] = (float)i;
  return kTfLiteOk;
}

static void* OpaqueInit(TfLiteOpaqueContext* c, const char* buffer, size_t length) { return &handled; }

// The operator that `kept` holds from the first call on.
static TfLiteOperator* Operator(TfLiteOperator** kept) {
  if (*kept == NULL) *kept = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Edge", 1, NULL);
  return *kept;
}

TFL_CAPI_EXPORT TfLiteOperator* InvokeOnly(void) {      // without init, prepare and free
  static TfLiteOperator* op;
  TfLiteOperatorSetInvoke(Operator(&op), OpaqueInvoke);
  return op;
}

TFL_CAPI_EXPORT TfLiteOperator* PrepareOnly(void) {
  static TfLiteOperator* op;
  TfLiteOperatorSetPrepare(Operator(&op), OpaquePrepare);
  return op;
}

TFL_CAPI_EXPORT TfLiteOperator* WithoutFree(void) {
  static TfLiteOperator* op;
  TfLiteOperatorSetInvoke(Operator(&op), OpaqueInvoke);
  TfLiteOperatorSetInit(op, OpaqueInit);
  return op;
}

// ---- Delegates, which take NEG ----

static char way;
static int freed;
TFL_CAPI_EXPORT int handles_freed(void) { return freed; }

static TfLiteStatus Take(TfLiteContext* context, TfLiteNode* node) {
  TfLiteTensor* y = &context->tensors[node->outputs->data[0]];
  if (way != 'S') y->buffer_handle = 5;
  return context->ResizeTensorExplicit(context, y, 1, (int[]){4});
}
static TfLiteStatus Leave(TfLiteContext* context, TfLiteNode* node) {
  context->tensors[node->outputs->data[0]].data_is_stale = true;
  return kTfLiteOk;
}

static TfLiteStatus OpaqueCopy(TfLiteOpaqueContext* c, TfLiteOpaqueDelegate* d, void* data, TfLiteBufferHandle handle,
                               TfLiteOpaqueTensor* tensor) {
  float* y = TfLiteOpaqueTensorData(tensor);
  for (int i = 0; i < 4; i++) y[i] = (float)handle;
  return data == &freed ? kTfLiteOk : kTfLiteError;
}
static void OpaqueFreeHandle(TfLiteOpaqueContext* c, TfLiteOpaqueDelegate* d, void* data, TfLiteBufferHandle* handle) {
  freed += *handle;
}

static TfLiteStatus Apply(TfLiteContext* context, TfLiteDelegate* delegate) {
  const TfLiteRegistration r = {.prepare = way == 'u' ? NULL : Take, .invoke = way == 'u' ? NULL : Leave, .init = Init};
  const int one[] = {1, 0};
  static TfLiteDelegate another;
  if (way == 't') {
    context->tensors_size = 0;
    return kTfLiteOk;
  }
  if (way == 'm') {
    const char* data;
    size_t bytes;
    TfLiteContext* other;
    const TfLiteStatus known = context->GetModelMetadata(context, "any", &data, &bytes);
    return known == kTfLiteError ? context->AcquireSubgraphContext(context, 1, &other) : kTfLiteOk;
  }
  if (way == 'C') {       // a classic delegate with an opaque kernel
    TfLiteOperator* op = TfLiteOperatorCreate(kTfLiteBuiltinDelegate, "Edge", 1, NULL);
    TfLiteOperatorSetInvoke(op, OpaqueInvoke);
    return TfLiteOpaqueContextReplaceNodeSubsetsWithDelegateKernels(
        (TfLiteOpaqueContext*)context, op, (const TfLiteIntArray*)one, (TfLiteOpaqueDelegate*)delegate);
  }
  if (way == 'a') context->tensors[1].delegate = &another;
  return context->ReplaceNodeSubsetsWithDelegateKernels(context, r, (const TfLiteIntArray*)one, delegate);
}
static TfLiteStatus OpaqueApply(TfLiteOpaqueContext* c, TfLiteOpaqueDelegate* d, void* data) {
  return Apply((TfLiteContext*)c, (TfLiteDelegate*)d);
}

TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report)(const char*)) {
  way = values[0][0];
  if (strchr("oNE", way) != NULL) {
    TfLiteOpaqueDelegateBuilder builder = {.data = &freed};
    if (way != 'E') builder.Prepare = OpaqueApply;
    if (way == 'o') builder.CopyFromBufferHandle = OpaqueCopy, builder.FreeBufferHandle = OpaqueFreeHandle;
    return (TfLiteDelegate*)TfLiteOpaqueDelegateCreate(&builder);
  }
  TfLiteDelegate* delegate = calloc(1, sizeof(TfLiteDelegate));
  delegate->Prepare = Apply;
  return delegate;
}

void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate) { free(delegate); }
