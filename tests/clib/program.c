// A program in C that runs the model argv[2] in the way argv[1], as test_programs.py asks for.
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/delegates/external/external_delegate.h"

static char reported[4096];
static int reports;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      printf("line %d: %s; reported: %s\n", __LINE__, #condition, reported);    \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)

static void report(void *user_data, const char *format, va_list args) {
  CHECK(user_data == reported);
  vsnprintf(reported, sizeof reported, format, args);
  reports++;
}

static TfLiteInterpreterOptions *quiet(void) {
  TfLiteInterpreterOptions *options = TfLiteInterpreterOptionsCreate();
  CHECK(options != NULL);
  TfLiteInterpreterOptionsSetErrorReporter(options, report, reported);
  return options;
}

static TfLiteInterpreter *interpreter_of(const char *path, TfLiteInterpreterOptions *options) {
  TfLiteModel *model = TfLiteModelCreateFromFileWithErrorReporter(path, report, reported);
  CHECK(model != NULL);
  TfLiteInterpreter *made = TfLiteInterpreterCreate(model, options);
  TfLiteInterpreterOptionsDelete(options);
  TfLiteModelDelete(model);
  return made;
}

static void fill(TfLiteTensor *tensor, float start) {
  const size_t n = TfLiteTensorByteSize(tensor) / sizeof(float);
  float *values = malloc(n * sizeof *values);
  for (size_t i = 0; i < n; i++) values[i] = start + i;
  CHECK(TfLiteTensorCopyFromBuffer(tensor, values, n * sizeof *values) == kTfLiteOk);
  free(values);
}

static void print(const TfLiteTensor *tensor) {
  const float *values = TfLiteTensorData(tensor);
  for (size_t i = 0; i < TfLiteTensorByteSize(tensor) / sizeof(float); i++) printf("%g ", values[i]);
  printf("\n");
}

static void run(TfLiteInterpreter *interpreter) {
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  for (int i = 0; i < TfLiteInterpreterGetInputTensorCount(interpreter); i++)
    fill(TfLiteInterpreterGetInputTensor(interpreter, i), i);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
}

// x + y of (2, 3), x of any number of rows: the details, a run, a resize, runs from memory.
static void plain(const char *path) {
  CHECK(strchr(TfLiteVersion(), '.') != NULL && TfLiteSchemaVersion() == 3);
  TfLiteInterpreterOptions *first = quiet(), *options = TfLiteInterpreterOptionsCopy(first);
  TfLiteInterpreterOptionsDelete(first);
  TfLiteInterpreterOptionsSetNumThreads(options, 2);
  TfLiteInterpreter *interpreter = interpreter_of(path, options);
  CHECK(interpreter != NULL && TfLiteInterpreterGetInputTensorCount(interpreter) == 2);
  TfLiteTensor *x = TfLiteInterpreterGetInputTensor(interpreter, 0);
  const TfLiteTensor *z = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  CHECK(TfLiteTensorData(x) == NULL && strcmp(TfLiteTensorName(x), "a") == 0 && TfLiteTensorType(x) == kTfLiteFloat32);
  CHECK(TfLiteTensorNumDims(x) == 2 && TfLiteTensorDim(x, 0) == 1 && TfLiteTensorDim(x, 1) == 3);
  CHECK(TfLiteTensorByteSize(x) == 12 && x->dims_signature->data[0] == -1 && !x->is_variable);
  CHECK(TfLiteInterpreterInputTensorIndices(interpreter)[1] == 1);
  CHECK(TfLiteInterpreterOutputTensorIndices(interpreter)[0] == 2);
  CHECK(TfLiteInterpreterGetInputTensorIndex(interpreter, 1) == 1);
  CHECK(TfLiteInterpreterGetOutputTensorIndex(interpreter, 0) == 2);
  CHECK(TfLiteInterpreterGetTensor(interpreter, 2) == z);
  for (int rows = 2; rows < 4; rows++) {
    const int dims[] = {rows, 3};
    for (int i = 0; i < 2; i++) CHECK(TfLiteInterpreterResizeInputTensor(interpreter, i, dims, 2) == kTfLiteOk);
    CHECK(TfLiteTensorDim(x, 0) == rows && TfLiteTensorData(x) == NULL);
    run(interpreter);
    print(z);
  }
  CHECK(TfLiteInterpreterResetVariableTensors(interpreter) == kTfLiteOk && reports == 0);
  TfLiteInterpreterDelete(interpreter);

  static char file[1 << 16];
  FILE *stream = fopen(path, "rb");
  const size_t size = fread(file, 1, sizeof file, stream);
  fclose(stream);
  TfLiteModel *model = TfLiteModelCreate(file, size);
  CHECK((interpreter = TfLiteInterpreterCreate(model, NULL)) != NULL);
  run(interpreter);
  print(TfLiteInterpreterGetOutputTensor(interpreter, 0));
  TfLiteInterpreterDelete(interpreter);
  TfLiteModelDelete(model);
}

static void signatures(const char *path) {
  TfLiteInterpreter *interpreter = interpreter_of(path, quiet());
  for (int i = 0; i < TfLiteInterpreterGetSignatureCount(interpreter); i++) {
    const char *key = TfLiteInterpreterGetSignatureKey(interpreter, i);
    TfLiteSignatureRunner *runner = TfLiteInterpreterGetSignatureRunner(interpreter, key);
    CHECK(runner != NULL);
    printf("%s:", key);
    CHECK(TfLiteSignatureRunnerAllocateTensors(runner) == kTfLiteOk);
    for (size_t k = 0; k < TfLiteSignatureRunnerGetInputCount(runner); k++) {
      const char *name = TfLiteSignatureRunnerGetInputName(runner, k);
      printf(" %s", name);
      fill(TfLiteSignatureRunnerGetInputTensor(runner, name), k);
    }
    CHECK(TfLiteSignatureRunnerInvoke(runner) == kTfLiteOk);
    for (size_t k = 0; k < TfLiteSignatureRunnerGetOutputCount(runner); k++) {
      const char *name = TfLiteSignatureRunnerGetOutputName(runner, k);
      printf(" -> %s: ", name);
      print(TfLiteSignatureRunnerGetOutputTensor(runner, name));
    }
    const int dims[] = {2, 5};
    CHECK(TfLiteSignatureRunnerGetInputTensor(runner, "no such") == NULL && reports == 1);
    CHECK(TfLiteSignatureRunnerResizeInputTensor(runner, "no such", dims, 2) == kTfLiteError);
    CHECK(TfLiteSignatureRunnerResizeInputTensor(runner, TfLiteSignatureRunnerGetInputName(runner, 0), dims, 2) ==
          kTfLiteError);     // as by strict=True
    CHECK(TfLiteSignatureRunnerCancel(runner) == kTfLiteError && reports == 4);
    TfLiteSignatureRunnerDelete(runner);
    reports = 0;
  }
  CHECK(TfLiteInterpreterGetSignatureKey(interpreter, 99) == NULL);
  CHECK(TfLiteInterpreterGetSignatureRunner(interpreter, "no such") == NULL && reports == 1);
  TfLiteInterpreterDelete(interpreter);
}

// Null pointers, indices out of range, calls in the wrong order.
static void wrong(const char *path) {
  CHECK(TfLiteModelCreateWithErrorReporter(NULL, 5, report, reported) == NULL && reports == 1);
  CHECK(TfLiteModelCreateWithErrorReporter("x", 0, report, reported) == NULL && reports == 2);
  CHECK(TfLiteModelCreateWithErrorReporter("no model of any kind", 20, report, reported) == NULL && reports == 3);
  CHECK(strstr(reported, "not a valid Flatbuffer") != NULL);
  CHECK(TfLiteModelCreateFromFileWithErrorReporter(NULL, report, reported) == NULL && reports == 4);
  CHECK(TfLiteModelCreateFromFileWithErrorReporter("/no/such.tflite", report, reported) == NULL && reports == 5);
  CHECK(strstr(reported, "/no/such.tflite") != NULL);
  TfLiteModelDelete(NULL);
  TfLiteInterpreterOptionsDelete(NULL);
  TfLiteInterpreterDelete(NULL);
  TfLiteSignatureRunnerDelete(NULL);
  TfLiteInterpreterOptionsAddDelegate(NULL, NULL);
  CHECK(TfLiteInterpreterOptionsCopy(NULL) == NULL);
  TfLiteInterpreterOptions *options = quiet();
  CHECK(TfLiteInterpreterCreate(NULL, options) == NULL && reports == 6);
  CHECK(TfLiteInterpreterOptionsEnableCancellation(options, true) == kTfLiteError && reports == 7);
  CHECK(TfLiteInterpreterOptionsEnableCancellation(options, false) == kTfLiteOk);
  TfLiteInterpreterOptionsAddDelegate(options, NULL);
  TfLiteInterpreter *interpreter = interpreter_of(path, options);
  CHECK(interpreter != NULL && reports == 7);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError && reports == 8);
  CHECK(strstr(reported, "not ready") != NULL);
  TfLiteTensor *x = TfLiteInterpreterGetInputTensor(interpreter, 0);
  float values[8] = {0};
  CHECK(TfLiteTensorCopyFromBuffer(x, values, 12) == kTfLiteError);     // not allocated
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  CHECK(TfLiteTensorCopyFromBuffer(x, values, 12) == kTfLiteOk);
  CHECK(TfLiteTensorCopyFromBuffer(x, values, 8) == kTfLiteError);
  CHECK(TfLiteTensorCopyFromBuffer(x, NULL, 12) == kTfLiteError);
  CHECK(TfLiteTensorCopyFromBuffer(NULL, values, 12) == kTfLiteError);
  CHECK(TfLiteTensorCopyToBuffer(x, values, 13) == kTfLiteError);
  CHECK(TfLiteTensorCopyToBuffer(NULL, values, 12) == kTfLiteError);
  CHECK(TfLiteTensorCopyToBuffer(x, NULL, 12) == kTfLiteError);
  CHECK(TfLiteTensorDim(x, 2) == -1 && TfLiteTensorDim(x, -1) == -1 && TfLiteTensorNumDims(NULL) == -1);
  CHECK(TfLiteTensorType(NULL) == kTfLiteNoType && TfLiteTensorData(NULL) == NULL && TfLiteTensorByteSize(NULL) == 0);
  CHECK(TfLiteTensorName(NULL) == NULL && TfLiteTensorQuantizationParams(NULL).scale == 0);
  reports = 0;
  CHECK(TfLiteInterpreterGetInputTensor(interpreter, 2) == NULL && reports == 1);
  CHECK(TfLiteInterpreterGetInputTensor(interpreter, -1) == NULL && reports == 2);
  CHECK(TfLiteInterpreterGetOutputTensor(interpreter, 1) == NULL && reports == 3);
  CHECK(TfLiteInterpreterGetTensor(interpreter, 99) == NULL && reports == 4);
  CHECK(TfLiteInterpreterGetTensor(interpreter, -1) == NULL && reports == 5);
  CHECK(TfLiteInterpreterGetInputTensorIndex(interpreter, 9) == -1);
  const int dims[] = {2, 3}, negative[] = {-2, 3};
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 7, dims, 2) == kTfLiteError && reports == 6);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, NULL, 2) == kTfLiteError && reports == 7);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, dims, -1) == kTfLiteError && reports == 8);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, negative, 2) == kTfLiteError && reports == 9);
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, dims, 2) == kTfLiteOk);
  const int wide[] = {2, 4};
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 1, wide, 2) == kTfLiteOk);
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteError && reports == 10);
  CHECK(strstr(reported, "ADD") != NULL && strstr(reported, "[2, 4]") != NULL);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteError && reports == 11);
  CHECK(TfLiteInterpreterCancel(interpreter) == kTfLiteError && reports == 12);
  CHECK(TfLiteInterpreterGetSignatureRunner(interpreter, NULL) == NULL);
  TfLiteDelegate none = {0};
  CHECK(TfLiteInterpreterModifyGraphWithDelegate(interpreter, &none) == kTfLiteDelegateError && reports == 13);
  CHECK(TfLiteInterpreterModifyGraphWithDelegate(interpreter, NULL) == kTfLiteError);
  TfLiteInterpreterDelete(interpreter);
  CHECK(TfLiteInterpreterAllocateTensors(NULL) == kTfLiteError && TfLiteInterpreterInvoke(NULL) == kTfLiteError);
  CHECK(TfLiteInterpreterGetInputTensorCount(NULL) == 0 && TfLiteInterpreterGetOutputTensorCount(NULL) == 0);
  CHECK(TfLiteInterpreterGetInputTensor(NULL, 0) == NULL && TfLiteInterpreterGetOutputTensor(NULL, 0) == NULL);
  CHECK(TfLiteInterpreterGetTensor(NULL, 0) == NULL && TfLiteInterpreterInputTensorIndices(NULL) == NULL);
  CHECK(TfLiteInterpreterGetSignatureCount(NULL) == 0 && TfLiteInterpreterGetSignatureKey(NULL, 0) == NULL);
  CHECK(TfLiteSignatureRunnerInvoke(NULL) == kTfLiteError && TfLiteSignatureRunnerGetInputCount(NULL) == 0);
  CHECK(TfLiteInterpreterResizeInputTensor(NULL, 0, dims, 2) == kTfLiteError);
  printf("all refused\n");
}

// Ops of the program, which wait for one another: they run at the same time or never.
static pthread_barrier_t together;

static TfLiteStatus prepare(TfLiteContext *context, TfLiteNode *node) {
  const TfLiteTensor *in = &context->tensors[node->inputs->data[0]];
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]], TfLiteIntArrayCopy(in->dims));
}

static TfLiteStatus invoke(TfLiteContext *context, TfLiteNode *node) {
  const TfLiteTensor *in = &context->tensors[node->inputs->data[0]];
  TfLiteTensor *out = &context->tensors[node->outputs->data[0]];
  pthread_barrier_wait(&together);
  for (size_t i = 0; i < in->bytes / sizeof(float); i++) out->data.f[i] = 2 * in->data.f[i];
  return kTfLiteOk;
}

static TfLiteStatus opaque_prepare(TfLiteOpaqueContext *context, TfLiteOpaqueNode *node) {
  return prepare((TfLiteContext *)context, (TfLiteNode *)node);
}
static TfLiteStatus opaque_invoke(TfLiteOpaqueContext *context, TfLiteOpaqueNode *node) {
  return invoke((TfLiteContext *)context, (TfLiteNode *)node);
}

static void *run_op(void *path) {
  const TfLiteRegistration registration = {.prepare = prepare, .invoke = invoke};
  TfLiteInterpreterOptions *options = quiet();
  TfLiteInterpreterOptionsAddCustomOp(options, "Twice", &registration, 1, 1);
  TfLiteInterpreter *interpreter = interpreter_of(path, options);
  CHECK(interpreter != NULL);
  for (int i = 0; i < 20; i++) run(interpreter);
  CHECK(((float *)TfLiteTensorData(TfLiteInterpreterGetOutputTensor(interpreter, 0)))[1] == 2);
  TfLiteInterpreterDelete(interpreter);
  return NULL;
}

static void ops(char *path) {
  pthread_t threads[3];
  pthread_barrier_init(&together, NULL, 3);
  for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, run_op, path) == 0);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&together);

  pthread_barrier_init(&together, NULL, 1);
  TfLiteOperator *op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Twice", 1, NULL);
  TfLiteOperatorSetPrepare(op, opaque_prepare);
  TfLiteOperatorSetInvoke(op, opaque_invoke);
  TfLiteInterpreterOptions *options = quiet();
  TfLiteInterpreterOptionsAddOperator(options, op);
  TfLiteModel *model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter *interpreter = TfLiteInterpreterCreateWithSelectedOps(model, options);
  CHECK(interpreter != NULL);
  run(interpreter);
  print(TfLiteInterpreterGetOutputTensor(interpreter, 0));
  TfLiteInterpreterDelete(interpreter);
  TfLiteOperatorDelete(op);
  TfLiteInterpreterOptionsDelete(options);
  options = quiet();
  interpreter = TfLiteInterpreterCreate(model, options);      // without the op
  CHECK(interpreter == NULL || TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteError);
  CHECK(strstr(reported, "Twice") != NULL);
  TfLiteInterpreterDelete(interpreter);
  TfLiteInterpreterOptionsDelete(options);
  TfLiteModelDelete(model);
}

// argv[3]: the library of a delegate.
static void delegates(const char *path, const char *library) {
  TfLiteExternalDelegateOptions given = TfLiteExternalDelegateOptionsDefault(library);
  CHECK(given.insert(&given, "flags", "0") == kTfLiteOk && given.count == 1);
  TfLiteDelegate *delegate = TfLiteExternalDelegateCreate(&given);
  CHECK(delegate != NULL);
  TfLiteInterpreterOptions *options = quiet();
  TfLiteInterpreterOptionsAddDelegate(options, delegate);
  TfLiteInterpreter *interpreter = interpreter_of(path, options);
  CHECK(interpreter != NULL);
  run(interpreter);
  print(TfLiteInterpreterGetOutputTensor(interpreter, 0));
  TfLiteInterpreterDelete(interpreter);
  interpreter = interpreter_of(path, quiet());
  CHECK(TfLiteInterpreterModifyGraphWithDelegate(interpreter, delegate) == kTfLiteOk);
  run(interpreter);
  print(TfLiteInterpreterGetOutputTensor(interpreter, 0));
  TfLiteInterpreterDelete(interpreter);
  TfLiteExternalDelegateDelete(delegate);
  given.lib_path = "/no/such.so";
  CHECK(TfLiteExternalDelegateCreate(&given) == NULL && TfLiteExternalDelegateCreate(NULL) == NULL);
}

// Strings reversed by nothing: input and output of a RESHAPE.
static void strings(const char *path) {
  TfLiteInterpreter *interpreter = interpreter_of(path, quiet());
  CHECK(TfLiteInterpreterAllocateTensors(interpreter) == kTfLiteOk);
  const int32_t head[] = {2, 16, 18, 21};
  char buffer[21];
  memcpy(buffer, head, 16);
  memcpy(buffer + 16, "abcde", 5);
  CHECK(TfLiteTensorCopyFromBuffer(TfLiteInterpreterGetInputTensor(interpreter, 0), buffer, 21) == kTfLiteOk);
  CHECK(TfLiteInterpreterInvoke(interpreter) == kTfLiteOk);
  const TfLiteTensor *out = TfLiteInterpreterGetOutputTensor(interpreter, 0);
  CHECK(TfLiteTensorByteSize(out) == 21 && memcmp(TfLiteTensorData(out), buffer, 21) == 0);
  printf("strings\n");
  TfLiteInterpreterDelete(interpreter);
}

static void nothing(int number) {}

// Python starts in a program that ignores its children, while signals interrupt each system call that waits.
static void signals(const char *path) {
  const struct sigaction action = {.sa_handler = nothing};     // without SA_RESTART
  const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  signal(SIGCHLD, SIG_IGN);
  CHECK(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
  TfLiteInterpreter *interpreter = interpreter_of(path, quiet());
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
  CHECK(interpreter != NULL);
  run(interpreter);
  print(TfLiteInterpreterGetOutputTensor(interpreter, 0));
  TfLiteInterpreterDelete(interpreter);
}

// What a loop leaves behind.
static void leaks(const char *path) {
  struct rusage usage;
  long before = 0;
  for (int i = 0; i < 400; i++) {
    TfLiteInterpreterOptions *options = quiet();
    TfLiteInterpreter *interpreter = interpreter_of(path, options);
    run(interpreter);
    if (TfLiteInterpreterGetSignatureCount(interpreter)) {
      TfLiteSignatureRunner *runner =
          TfLiteInterpreterGetSignatureRunner(interpreter, TfLiteInterpreterGetSignatureKey(interpreter, 0));
      CHECK(TfLiteSignatureRunnerAllocateTensors(runner) == kTfLiteOk);
      TfLiteSignatureRunnerDelete(runner);
    }
    CHECK(TfLiteInterpreterGetInputTensor(interpreter, 99) == NULL);
    TfLiteInterpreterDelete(interpreter);
    getrusage(RUSAGE_SELF, &usage);
    if (i == 99) before = usage.ru_maxrss;
  }
  CHECK(usage.ru_maxrss - before < 2048);     // KiB; 300 interpreters of 7 KiB would show
  printf("no leak\n");
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  if (strcmp(argv[1], "plain") == 0) plain(argv[2]);
  else if (strcmp(argv[1], "signatures") == 0) signatures(argv[2]);
  else if (strcmp(argv[1], "wrong") == 0) wrong(argv[2]);
  else if (strcmp(argv[1], "ops") == 0) ops(argv[2]);
  else if (strcmp(argv[1], "delegates") == 0) delegates(argv[2], argv[3]);
  else if (strcmp(argv[1], "strings") == 0) strings(argv[2]);
  else if (strcmp(argv[1], "signals") == 0) signals(argv[2]);
  else if (strcmp(argv[1], "leaks") == 0) leaks(argv[2]);
  else return 2;
  return 0;
}
