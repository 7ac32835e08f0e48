// Wrong arguments and wrong states of the C library.  argv: a model of ADD with the signature "add"; libraries of a
// delegate, of no delegate, and of half a delegate.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/delegates/external/external_delegate.h"

// XNNPACK's header is not part of pylite.
typedef struct TfLiteXNNPackDelegateOptions {
  int32_t num_threads;
  uint32_t flags;
  void *others[2];
} TfLiteXNNPackDelegateOptions;
TfLiteXNNPackDelegateOptions TfLiteXNNPackDelegateOptionsDefault(void);
TfLiteDelegate *TfLiteXNNPackDelegateCreate(const TfLiteXNNPackDelegateOptions *options);
void TfLiteXNNPackDelegateDelete(TfLiteDelegate *delegate);

static char reported[4096];
static int reports;
static void report(void *user_data, const char *format, va_list args) {
  vsnprintf(reported, sizeof reported, format, args);
  reports++;
}
#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      printf("line %d: %s; reported: %s\n", __LINE__, #condition, reported);    \
      exit(1);                                                                  \
    }                                                                           \
  } while (0)
#define REFUSED(call) CHECK((call) == kTfLiteError)

static void null_operators(void) {
  CHECK(TfLiteOperatorGetCustomName(NULL) == NULL && (int)TfLiteOperatorGetBuiltInCode(NULL) == -1);
  CHECK(TfLiteRegistrationExternalGetCustomName(NULL) == NULL);
  CHECK((int)TfLiteRegistrationExternalGetBuiltInCode(NULL) == -1 && TfLiteOperatorGetVersion(NULL) == -1);
  TfLiteOperatorSetInit(NULL, NULL);
  TfLiteOperatorSetFree(NULL, NULL);
  TfLiteOperatorSetPrepare(NULL, NULL);
  TfLiteOperatorSetInvoke(NULL, NULL);
  TfLiteOperatorSetInplaceOperator(NULL, 1);
  TfLiteRegistrationExternalSetInit(NULL, NULL);
  TfLiteRegistrationExternalSetFree(NULL, NULL);
  TfLiteRegistrationExternalSetPrepare(NULL, NULL);
  TfLiteRegistrationExternalSetInvoke(NULL, NULL);
  TfLiteRegistrationExternalSetInplaceOperator(NULL, 1);
  REFUSED(TfLiteOperatorSetInitWithData(NULL, NULL));
  REFUSED(TfLiteOperatorSetFreeWithData(NULL, NULL));
  REFUSED(TfLiteOperatorSetPrepareWithData(NULL, NULL));
  REFUSED(TfLiteOperatorSetInvokeWithData(NULL, NULL));
  TfLiteTensorFree(NULL);
  TfLiteTensorDataFree(NULL);
  TfLiteQuantizationFree(NULL);
}

static void null_pointers(void) {
  TfLiteRegistration registration = {0};
  const int dims[] = {1};
  TfLiteInterpreterOptions *options = TfLiteInterpreterOptionsCreate();
  TfLiteOperator *op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Op", 1, NULL);
  TfLiteInterpreterOptionsSetNumThreads(NULL, 2);
  TfLiteInterpreterOptionsSetErrorReporter(NULL, report, NULL);
  TfLiteInterpreterOptionsSetErrorReporter(options, report, NULL);
  TfLiteInterpreterOptionsAddOperator(NULL, op);
  TfLiteInterpreterOptionsAddOperator(options, NULL);
  TfLiteInterpreterOptionsAddRegistrationExternal(options, NULL);
  TfLiteInterpreterOptionsAddBuiltinOp(NULL, kTfLiteBuiltinAdd, &registration, 1, 1);
  TfLiteInterpreterOptionsAddBuiltinOp(options, kTfLiteBuiltinAdd, NULL, 1, 1);
  TfLiteInterpreterOptionsAddCustomOp(NULL, "Op", &registration, 1, 1);
  TfLiteInterpreterOptionsAddCustomOp(options, NULL, &registration, 1, 1);
  TfLiteInterpreterOptionsAddCustomOp(options, "Op", NULL, 1, 1);
  TfLiteInterpreterOptionsSetUseNNAPI(options, true);
  TfLiteInterpreterOptionsSetEnableDelegateFallback(options, true);
  REFUSED(TfLiteInterpreterOptionsEnableCancellation(NULL, true));
  CHECK(reports == 0);
  TfLiteInterpreterOptionsDelete(options);
  TfLiteOperatorDelete(op);

  CHECK(TfLiteInterpreterOutputTensorIndices(NULL) == NULL && TfLiteInterpreterGetSignatureRunner(NULL, "a") == NULL);
  CHECK(TfLiteInterpreterGetInputTensorIndex(NULL, 0) == -1 && TfLiteInterpreterGetOutputTensorIndex(NULL, 0) == -1);
  REFUSED(TfLiteInterpreterResetVariableTensors(NULL));
  REFUSED(TfLiteInterpreterCancel(NULL));
  REFUSED(TfLiteInterpreterModifyGraphWithDelegate(NULL, (TfLiteDelegate *)dims));
  REFUSED(TfLiteSignatureRunnerAllocateTensors(NULL));
  REFUSED(TfLiteSignatureRunnerCancel(NULL));
  REFUSED(TfLiteSignatureRunnerResizeInputTensor(NULL, "x", dims, 1));
  CHECK(TfLiteSignatureRunnerGetOutputCount(NULL) == 0 && TfLiteSignatureRunnerGetInputTensor(NULL, "x") == NULL);
  CHECK(TfLiteSignatureRunnerGetInputName(NULL, 0) == NULL && TfLiteSignatureRunnerGetOutputName(NULL, 0) == NULL);
  CHECK(TfLiteSignatureRunnerGetOutputTensor(NULL, "z") == NULL);
}

// The process may not open files, so that Python cannot be asked for its paths.
static void no_files(const char *path) {
  struct rlimit limit, none;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  none = limit;
  none.rlim_cur = 3;
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK(TfLiteModelCreateFromFileWithErrorReporter(path, report, NULL) == NULL);
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(strstr(reported, "cannot start ") != NULL && strstr(reported, strerror(EMFILE)) != NULL);
}

static void tensors(void) {
  TfLiteTensor t = {.type = kTfLiteString};
  char bytes[4] = "abc";
  CHECK(TfLiteTensorNumDims(&t) == -1 && TfLiteTensorDim(&t, 0) == -1);
  REFUSED(TfLiteTensorCopyFromBuffer(&t, NULL, 4));
  CHECK(TfLiteTensorCopyFromBuffer(&t, NULL, 0) == kTfLiteOk && t.bytes == 0);
  CHECK(TfLiteTensorCopyToBuffer(&t, NULL, 0) == kTfLiteOk);
  CHECK(TfLiteTensorCopyFromBuffer(&t, bytes, 4) == kTfLiteOk && t.bytes == 4);
  CHECK(TfLiteTensorCopyFromBuffer(&t, bytes, 4) == kTfLiteOk);
  CHECK(TfLiteTensorCopyFromBuffer(&t, bytes, 0) == kTfLiteOk && t.bytes == 0 && t.data.data == NULL);
  TfLiteTensor absent = {.type = kTfLiteInt8, .bytes = 4};        // not allocated
  REFUSED(TfLiteTensorCopyFromBuffer(&absent, bytes, 4));
  REFUSED(TfLiteTensorCopyToBuffer(&absent, bytes, 4));
}

static void delegates(const char *good, const char *none, const char *half) {
  TfLiteExternalDelegateOptions options = TfLiteExternalDelegateOptionsDefault(NULL);
  CHECK(TfLiteExternalDelegateCreate(&options) == NULL);
  REFUSED(TfLiteExternalDelegateOptionsInsert(NULL, "a", "b"));
  options.count = -1;
  REFUSED(TfLiteExternalDelegateOptionsInsert(&options, "a", "b"));
  options.count = 0;
  int accepted = 0;
  while (options.insert(&options, "a", "b") == kTfLiteOk) accepted++;
  CHECK(accepted == kExternalDelegateMaxOptions && options.count == accepted);
  options.count = 0;
  for (int i = 0; i < 2; i++) {
    options.lib_path = i ? half : none;
    CHECK(TfLiteExternalDelegateCreate(&options) == NULL);
  }
  options.lib_path = good;
  TfLiteDelegate *first = TfLiteExternalDelegateCreate(&options), *second = TfLiteExternalDelegateCreate(&options);
  CHECK(first != NULL && second != NULL && first != second);
  TfLiteDelegate stranger = {0};
  TfLiteExternalDelegateDelete(NULL);
  TfLiteExternalDelegateDelete(&stranger);
  TfLiteExternalDelegateDelete(first);
  TfLiteExternalDelegateDelete(second);
  TfLiteExternalDelegateDelete(second);         // has gone
  CHECK(options.insert(&options, "fail", "create") == kTfLiteOk);
  CHECK(TfLiteExternalDelegateCreate(&options) == NULL);
}

static void runners(const char *path) {
  const TfLiteXNNPackDelegateOptions negative = {.num_threads = -3}, three = {.num_threads = 3};
  TfLiteXNNPackDelegateOptions usual = TfLiteXNNPackDelegateOptionsDefault();
  TfLiteDelegate *made[] = {TfLiteXNNPackDelegateCreate(&usual), TfLiteXNNPackDelegateCreate(&negative),
                            TfLiteXNNPackDelegateCreate(&three), TfLiteXNNPackDelegateCreate(NULL)};
  TfLiteInterpreterOptions *options = TfLiteInterpreterOptionsCreate();
  TfLiteInterpreterOptionsSetErrorReporter(options, report, NULL);
  for (int i = 0; i < 4; i++) TfLiteInterpreterOptionsAddDelegate(options, (TfLiteOpaqueDelegate *)made[i]);
  TfLiteModel *model = TfLiteModelCreateFromFile(path);
  TfLiteInterpreter *interpreter = TfLiteInterpreterCreate(model, options);
  CHECK(interpreter != NULL && TfLiteInterpreterModifyGraphWithDelegate(interpreter, made[2]) == kTfLiteOk);
  for (int i = 0; i < 4; i++) TfLiteXNNPackDelegateDelete(made[i]);
  CHECK(TfLiteInterpreterGetInputTensorIndex(interpreter, -1) == -1);
  CHECK(TfLiteInterpreterGetOutputTensorIndex(interpreter, -1) == -1);
  CHECK(TfLiteInterpreterGetOutputTensorIndex(interpreter, 1) == -1);
  CHECK(TfLiteInterpreterGetOutputTensorCount(interpreter) == 1 && TfLiteInterpreterGetOutputTensorCount(NULL) == 0);
  CHECK(TfLiteInterpreterGetSignatureKey(interpreter, -1) == NULL);
  CHECK(TfLiteInterpreterGetOutputTensor(interpreter, -1) == NULL);
  REFUSED(TfLiteInterpreterResizeInputTensor(interpreter, -1, NULL, 0));
  CHECK(TfLiteInterpreterResizeInputTensor(interpreter, 0, NULL, 0) == kTfLiteOk);      // to a scalar
  TfLiteSignatureRunner *runner = TfLiteInterpreterGetSignatureRunner(interpreter, "add");
  CHECK(runner != NULL);
  for (int i = -1; i < 3; i += 3) {
    CHECK(TfLiteSignatureRunnerGetInputName(runner, i) == NULL);
    CHECK(TfLiteSignatureRunnerGetOutputName(runner, i) == NULL);
  }
  CHECK(TfLiteSignatureRunnerGetInputTensor(runner, NULL) == NULL && strstr(reported, "(null)") != NULL);
  CHECK(TfLiteSignatureRunnerGetOutputTensor(runner, "x") == NULL);
  REFUSED(TfLiteSignatureRunnerInvoke(runner));         // before it is allocated
  TfLiteSignatureRunnerDelete(runner);

  // After the end of Python, objects can be deleted, and nothing else.
  ((int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure"))();
  ((int (*)(void))dlsym(RTLD_DEFAULT, "Py_FinalizeEx"))();
  REFUSED(TfLiteInterpreterAllocateTensors(interpreter));
  CHECK(strstr(reported, "Python has ended") != NULL);
  const int dims[] = {2, 3};
  REFUSED(TfLiteInterpreterResizeInputTensor(interpreter, 0, dims, 2));
  REFUSED(TfLiteInterpreterModifyGraphWithDelegate(interpreter, (TfLiteDelegate *)&usual));
  CHECK(TfLiteInterpreterGetTensor(interpreter, 0) == NULL);
  CHECK(TfLiteInterpreterGetSignatureRunner(interpreter, "add") == NULL);
  CHECK(TfLiteInterpreterCreate(model, options) == NULL);
  CHECK(TfLiteModelCreateFromFileWithErrorReporter(path, report, NULL) == NULL);
  TfLiteInterpreterDelete(interpreter);
  TfLiteModelDelete(model);
  TfLiteInterpreterOptionsDelete(options);
}

int main(int argc, char **argv) {
  CHECK(argc == 5);
  null_operators();
  null_pointers();
  tensors();
  no_files(argv[1]);
  delegates(argv[2], argv[3], argv[4]);
  runners(argv[1]);
  printf("refused\n");
  return 0;
}
