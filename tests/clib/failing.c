// Each allocation of the library fails in turn, from the one that starts Python on; tests/native/failing.c is preloaded.
// Arguments: a model of the op Twice with the signature "twice", a model of strings, the library of a delegate.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/delegates/external/external_delegate.h"

// XNNPACK's header is not part of pylite.
typedef struct TfLiteXNNPackDelegateOptions TfLiteXNNPackDelegateOptions;
TfLiteDelegate *TfLiteXNNPackDelegateCreate(const TfLiteXNNPackDelegateOptions *options);
void TfLiteXNNPackDelegateDelete(TfLiteDelegate *delegate);

static char reported[4096];
static int reports;

#define CHECK(condition)                                                                            \
  do {                                                                                              \
    if (!(condition)) {                                                                             \
      printf("line %d, allocation %d: %s; reported: %s\n", __LINE__, number, #condition, reported); \
      return 1;                                                                                     \
    }                                                                                               \
  } while (0)

static void report(void *user_data, const char *format, va_list args) {
  vsnprintf(user_data, sizeof reported, format, args);
  reports++;
}

static TfLiteStatus prepare(TfLiteContext *context, TfLiteNode *node) {
  const TfLiteTensor *in = &context->tensors[node->inputs->data[0]];
  return context->ResizeTensor(context, &context->tensors[node->outputs->data[0]], TfLiteIntArrayCopy(in->dims));
}

static void *init(TfLiteContext *context, const char *buffer, size_t length) { return NULL; }
static void release(TfLiteContext *context, void *data) {}

static TfLiteStatus invoke(TfLiteContext *context, TfLiteNode *node) {
  const TfLiteTensor *in = &context->tensors[node->inputs->data[0]];
  TfLiteTensor *out = &context->tensors[node->outputs->data[0]];
  for (size_t i = 0; i < in->bytes / sizeof(float); i++) out->data.f[i] = 2 * in->data.f[i];
  return kTfLiteOk;
}

// Makes each kind of object and runs models; deletes what was made.  False if anything failed or was reported.
static bool ran(const char *path, const char *text_path, const char *library) {
  reports = 0;
  const TfLiteRegistration registration = {.prepare = prepare, .invoke = invoke};
  const TfLiteRegistration others[] = {{0}, {.init = init}, {.free = release}, {.invoke = invoke}};
  TfLiteInterpreterOptions *first = TfLiteInterpreterOptionsCreate(), *options;
  TfLiteExternalDelegateOptions given = TfLiteExternalDelegateOptionsDefault(library);
  TfLiteDelegate *delegate = TfLiteExternalDelegateCreate(&given), *plain = TfLiteXNNPackDelegateCreate(NULL);
  TfLiteOperator *op = TfLiteOperatorCreate(kTfLiteBuiltinCustom, "Other", 1, NULL);
  TfLiteInterpreterOptionsSetErrorReporter(first, report, reported);
  TfLiteInterpreterOptionsAddCustomOp(first, "Twice", &registration, 1, 1);
  for (int i = 0; i < 4; i++) TfLiteInterpreterOptionsAddCustomOp(first, "None", &others[i], i, i);
  TfLiteInterpreterOptionsAddBuiltinOp(first, kTfLiteBuiltinAbs, &registration, 1, 1);
  TfLiteInterpreterOptionsAddOperator(first, op);
  TfLiteInterpreterOptionsAddDelegate(first, (TfLiteOpaqueDelegate *)delegate);
  TfLiteInterpreterOptionsAddDelegate(first, (TfLiteOpaqueDelegate *)plain);
  options = TfLiteInterpreterOptionsCopy(first);
  TfLiteModel *model = TfLiteModelCreateFromFileWithErrorReporter(path, report, reported);
  TfLiteModel *text_model = TfLiteModelCreateFromFileWithErrorReporter(text_path, report, reported);
  TfLiteInterpreter *twice = model == NULL ? NULL : TfLiteInterpreterCreate(model, options);
  TfLiteInterpreter *texts = text_model == NULL ? NULL : TfLiteInterpreterCreate(text_model, NULL);
  TfLiteSignatureRunner *runner = TfLiteInterpreterGetSignatureRunner(twice, "twice");
  const char text[21] = {2, 0, 0, 0, 16, 0, 0, 0, 18, 0, 0, 0, 21, 0, 0, 0, 'a', 'b', 'c', 'd', 'e'};
  bool ok = reports == 0 && delegate != NULL && plain != NULL && op != NULL && texts != NULL && runner != NULL;
  ok = ok && TfLiteSignatureRunnerAllocateTensors(runner) == kTfLiteOk;
  ok = ok && TfLiteSignatureRunnerInvoke(runner) == kTfLiteOk;
  ok = ok && TfLiteInterpreterAllocateTensors(texts) == kTfLiteOk;
  ok = ok && TfLiteTensorCopyFromBuffer(TfLiteInterpreterGetInputTensor(texts, 0), text, sizeof text) == kTfLiteOk;
  ok = ok && TfLiteInterpreterInvoke(texts) == kTfLiteOk;
  TfLiteSignatureRunnerDelete(runner);
  TfLiteInterpreterDelete(twice);
  TfLiteInterpreterDelete(texts);
  TfLiteModelDelete(model);
  TfLiteModelDelete(text_model);
  TfLiteInterpreterOptionsDelete(options);
  TfLiteInterpreterOptionsDelete(first);
  TfLiteOperatorDelete(op);
  TfLiteXNNPackDelegateDelete(plain);
  TfLiteExternalDelegateDelete(delegate);
  return ok;
}

int main(int argc, char **argv) {
  void (*failing_in)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "failing_in");
  void (*failing_at)(long) = (void (*)(long))dlsym(RTLD_DEFAULT, "failing_at");
  long (*failing_left)(void) = (long (*)(void))dlsym(RTLD_DEFAULT, "failing_left");
  int number = 1;
  CHECK(argc == 4 && failing_in != NULL && failing_at != NULL && failing_left != NULL);
  failing_in((void *)TfLiteVersion);
  TfLiteModel *model = NULL;
  while (model == NULL) {       // an attempt that succeeds starts Python
    failing_at(number++);
    model = TfLiteModelCreateFromFileWithErrorReporter(argv[1], report, reported);
  }
  CHECK(number >= 5 && failing_left() > 0 && strstr(reported, "cannot start ") != NULL);
  TfLiteModelDelete(model);
  number = 1;
  for (bool failed = true; failed; number++) {
    failing_at(number);
    const bool ok = ran(argv[1], argv[2], argv[3]);
    failed = failing_left() == 0;
    failing_at(0);
    CHECK(ok == !failed);
    CHECK(ran(argv[1], argv[2], argv[3]));
  }
  CHECK(number > 25);
  printf("each failed\n");
  return 0;
}
