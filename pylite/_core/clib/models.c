// Models and options of c_api.h.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "delegates.h"
#include "objects.h"

#define VERSION "2.21.0"
#define SCHEMA 3

const char *TfLiteVersion(void) { return VERSION; }
const char *TfLiteExtensionApisVersion(void) { return VERSION; }
int TfLiteSchemaVersion(void) { return SCHEMA; }

// ---- Models ----

// The model in the file at `path` or, if that is NULL, in memory; NULL with a report.
static TfLiteModel *model_new(const pl_reporter *reporter, const char *path, const void *data, size_t size) {
  pl_gil gil;
  TfLiteModel *model = calloc(1, sizeof *model);
  if (model == NULL || pl_gil_take(&gil, reporter) != 0) {
    free(model);
    return NULL;
  }
  model->object = path != NULL ? pl_call(reporter, pl_module(), "model_of_file", "(y)", path)
                               : pl_call(reporter, pl_module(), "model_of_memory", "(nn)", (intptr_t)data,
                                         (intptr_t)size);
  pl_gil_release(gil);
  if (model->object != NULL) return model;
  free(model);
  return NULL;
}

TfLiteModel *TfLiteModelCreateWithErrorReporter(const void *data, size_t size,
                                                void (*report)(void *, const char *, va_list), void *user_data) {
  const pl_reporter reporter = {report, user_data};
  if (data != NULL && size != 0) return model_new(&reporter, NULL, data, size);
  pl_report(&reporter, "TfLiteModelCreate: the model is %s", data == NULL ? "null" : "empty");
  return NULL;
}

TfLiteModel *TfLiteModelCreate(const void *data, size_t size) {
  return TfLiteModelCreateWithErrorReporter(data, size, NULL, NULL);
}

TfLiteModel *TfLiteModelCreateFromFileWithErrorReporter(const char *path,
                                                        void (*report)(void *, const char *, va_list),
                                                        void *user_data) {
  const pl_reporter reporter = {report, user_data};
  if (path != NULL) return model_new(&reporter, path, NULL, 0);
  pl_report(&reporter, "TfLiteModelCreateFromFile: the path is null");
  return NULL;
}

TfLiteModel *TfLiteModelCreateFromFile(const char *path) {
  return TfLiteModelCreateFromFileWithErrorReporter(path, NULL, NULL);
}

void pl_drop(PyObject *object) {
  pl_gil gil;
  if (pl_gil_retake(&gil) != 0) return;
  pl_release(object);
  pl_gil_release(gil);
}

void TfLiteModelDelete(TfLiteModel *model) {
  if (model != NULL) pl_drop(model->object);
  free(model);
}

// ---- Options ----

TfLiteInterpreterOptions *TfLiteInterpreterOptionsCreate(void) { return calloc(1, sizeof(TfLiteInterpreterOptions)); }

void TfLiteInterpreterOptionsDelete(TfLiteInterpreterOptions *options) {
  if (options == NULL) return;
  for (int i = 0; i < options->num_ops; i++) {
    free((void *)options->ops[i].name);
    free((void *)options->ops[i].registration);
  }
  free(options->delegates);
  free(options->ops);
  free(options);
}

// Appends an op to the options; they own copies of the name and the registration.  low, high: its versions.
static void add_op(TfLiteInterpreterOptions *options, int builtin, const char *name,
                   const TfLiteRegistration *registration, TfLiteOperator *op, int low, int high) {
  pl_op *ops = realloc(options->ops, (options->num_ops + 1) * sizeof *ops);
  if (ops == NULL) {
    pl_report(&options->reporter, "no memory for an op");
    return;
  }
  options->ops = ops;
  TfLiteRegistration *copy = NULL;
  char *text = name == NULL ? NULL : strdup(name);
  if (registration != NULL) {
    // Binaries from before 2022 have the first eight words only; the ninth is read only if all functions are null.
    const bool functions = registration->init || registration->free || registration->prepare || registration->invoke;
    copy = calloc(1, sizeof *copy);
    if (copy != NULL)
      memcpy(copy, registration, functions ? offsetof(TfLiteRegistration, registration_external)
                                           : offsetof(TfLiteRegistration, async_kernel));
  }
  if ((registration != NULL && copy == NULL) || (name != NULL && text == NULL)) {
    free(copy);
    free(text);
    pl_report(&options->reporter, "no memory for an op");
    return;
  }
  ops[options->num_ops++] = (pl_op){builtin, text, copy, op, low, high};
}

static void add_delegate(TfLiteInterpreterOptions *options, TfLiteDelegate *delegate) {
  TfLiteDelegate **delegates = realloc(options->delegates, (options->num_delegates + 1) * sizeof *delegates);
  if (delegates == NULL) {
    pl_report(&options->reporter, "no memory for a delegate");
    return;
  }
  options->delegates = delegates;
  delegates[options->num_delegates++] = delegate;
}

TfLiteInterpreterOptions *TfLiteInterpreterOptionsCopy(const TfLiteInterpreterOptions *from) {
  TfLiteInterpreterOptions *to = from == NULL ? NULL : TfLiteInterpreterOptionsCreate();
  if (to == NULL) return NULL;
  to->reporter = from->reporter;
  to->threads = from->threads;
  for (int i = 0; i < from->num_delegates; i++) add_delegate(to, from->delegates[i]);
  for (int i = 0; i < from->num_ops; i++) {
    const pl_op *op = &from->ops[i];
    add_op(to, op->builtin, op->name, op->registration, op->op, op->min_version, op->max_version);
  }
  return to;
}

void TfLiteInterpreterOptionsSetNumThreads(TfLiteInterpreterOptions *options, int32_t threads) {
  if (options != NULL) options->threads = threads;
}

void TfLiteInterpreterOptionsAddDelegate(TfLiteInterpreterOptions *options, TfLiteOpaqueDelegate *delegate) {
  if (options == NULL || delegate == NULL) return;
  const int threads = pl_xnnpack_threads((TfLiteDelegate *)delegate);
  if (threads < 0) add_delegate(options, (TfLiteDelegate *)delegate);
  else if (options->threads <= 0) options->threads = threads;
}

void TfLiteInterpreterOptionsAddOperator(TfLiteInterpreterOptions *options, TfLiteOperator *op) {
  if (options != NULL && op != NULL)
    add_op(options, TfLiteOperatorGetBuiltInCode(op), TfLiteOperatorGetCustomName(op), NULL, op,
           TfLiteOperatorGetVersion(op), TfLiteOperatorGetVersion(op));
}

void TfLiteInterpreterOptionsAddRegistrationExternal(TfLiteInterpreterOptions *options,
                                                     TfLiteRegistrationExternal *registration) {
  TfLiteInterpreterOptionsAddOperator(options, registration);
}

void TfLiteInterpreterOptionsAddBuiltinOp(TfLiteInterpreterOptions *options, TfLiteBuiltinOperator op,
                                          const TfLiteRegistration *registration, int32_t low, int32_t high) {
  if (options != NULL && registration != NULL) add_op(options, op, NULL, registration, NULL, low, high);
}

void TfLiteInterpreterOptionsAddCustomOp(TfLiteInterpreterOptions *options, const char *name,
                                         const TfLiteRegistration *registration, int32_t low, int32_t high) {
  if (options != NULL && registration != NULL && name != NULL)
    add_op(options, kTfLiteBuiltinCustom, name, registration, NULL, low, high);
}

void TfLiteInterpreterOptionsSetErrorReporter(TfLiteInterpreterOptions *options,
                                              void (*report)(void *, const char *, va_list), void *user_data) {
  if (options != NULL) options->reporter = (pl_reporter){report, user_data};
}

TfLiteStatus TfLiteInterpreterOptionsEnableCancellation(TfLiteInterpreterOptions *options, bool enable) {
  if (options == NULL) return kTfLiteError;
  if (!enable) return kTfLiteOk;
  pl_report(&options->reporter, "a run of pylite cannot be cancelled");
  return kTfLiteError;
}

void TfLiteInterpreterOptionsSetUseNNAPI(TfLiteInterpreterOptions *options, bool enable) {}
void TfLiteInterpreterOptionsSetEnableDelegateFallback(TfLiteInterpreterOptions *options, bool enable) {}
