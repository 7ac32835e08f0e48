// Delegates in libraries (external_delegate.h), and XNNPACK's delegate, which here means pylite's own kernels.
#include "delegates.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/tensorflow/lite/delegates/external/external_delegate.h"
#include "clib.h"

// ---- external_delegate.h ----

// A delegate, and the function that destroys it.
typedef struct pl_loaded {
  struct pl_loaded *next;
  TfLiteDelegate *delegate;
  void (*destroy)(TfLiteDelegate *);
} pl_loaded;

static pl_loaded *first;
static char locked;             // guards the list

static void lock(void) {
  while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE)) continue;
}
static void unlock(void) { __atomic_clear(&locked, __ATOMIC_RELEASE); }

TfLiteStatus TfLiteExternalDelegateOptionsInsert(TfLiteExternalDelegateOptions *options, const char *key,
                                                 const char *value) {
  if (options == NULL || options->count < 0 || options->count >= kExternalDelegateMaxOptions) return kTfLiteError;
  options->keys[options->count] = key;
  options->values[options->count++] = value;
  return kTfLiteOk;
}

TfLiteExternalDelegateOptions TfLiteExternalDelegateOptionsDefault(const char *lib_path) {
  TfLiteExternalDelegateOptions options;
  memset(&options, 0, sizeof options);
  options.lib_path = lib_path;
  options.insert = TfLiteExternalDelegateOptionsInsert;
  return options;
}

static void report(const char *text) { pl_report(NULL, "%s", text); }

TfLiteDelegate *TfLiteExternalDelegateCreate(const TfLiteExternalDelegateOptions *options) {
  TfLiteDelegate *(*create)(const char *const *, const char *const *, size_t, void (*)(const char *)) = NULL;
  if (options == NULL || options->lib_path == NULL) return NULL;
  pl_loaded *loaded = calloc(1, sizeof *loaded);
  void *library = loaded == NULL ? NULL : dlopen(options->lib_path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    pl_report(NULL, "the delegate %s cannot be loaded: %s", options->lib_path,
              loaded == NULL ? "no memory" : dlerror());
    free(loaded);
    return NULL;
  }
  *(void **)&create = dlsym(library, "tflite_plugin_create_delegate");
  *(void **)&loaded->destroy = dlsym(library, "tflite_plugin_destroy_delegate");
  if (create == NULL || loaded->destroy == NULL) {
    pl_report(NULL, "%s is no delegate: it has no %s", options->lib_path,
              create == NULL ? "tflite_plugin_create_delegate" : "tflite_plugin_destroy_delegate");
  } else {
    loaded->delegate = create(options->keys, options->values, (size_t)options->count, report);
  }
  if (loaded->delegate == NULL) {       // the library stays loaded: it may have registered functions to run at exit
    free(loaded);
    return NULL;
  }
  lock();
  loaded->next = first;
  first = loaded;
  unlock();
  return loaded->delegate;
}

void TfLiteExternalDelegateDelete(TfLiteDelegate *delegate) {
  if (delegate == NULL) return;
  lock();
  pl_loaded **link = &first;
  while (*link != NULL && (*link)->delegate != delegate) link = &(*link)->next;
  pl_loaded *loaded = *link;
  if (loaded != NULL) *link = loaded->next;
  unlock();
  if (loaded != NULL) loaded->destroy(delegate);
  free(loaded);
}

// ---- XNNPACK ----

// The fields with which TfLiteXNNPackDelegateOptions begins in all versions; later ones are not read.
typedef struct pl_xnnpack_options {
  int32_t num_threads;
  uint32_t flags;
  void *others[2];
} pl_xnnpack_options;

static TfLiteStatus claims_no_nodes(TfLiteContext *context, TfLiteDelegate *delegate) { return kTfLiteOk; }

int pl_xnnpack_threads(const TfLiteDelegate *delegate) {
  return delegate->Prepare == claims_no_nodes ? (int)(intptr_t)delegate->data_ : -1;
}

TFL_CAPI_EXPORT pl_xnnpack_options TfLiteXNNPackDelegateOptionsDefault(void) {
  return (pl_xnnpack_options){0, 0, {NULL, NULL}};
}

TFL_CAPI_EXPORT TfLiteDelegate *TfLiteXNNPackDelegateCreate(const pl_xnnpack_options *options) {
  TfLiteDelegate *delegate = calloc(1, sizeof *delegate);
  if (delegate == NULL) return NULL;
  delegate->Prepare = claims_no_nodes;
  delegate->data_ = (void *)(intptr_t)(options == NULL || options->num_threads < 0 ? 0 : options->num_threads);
  return delegate;
}

TFL_CAPI_EXPORT void TfLiteXNNPackDelegateDelete(TfLiteDelegate *delegate) { free(delegate); }
