// Delegates in shared libraries, for programs in C: loads what exports tflite_plugin_create_delegate().
#ifndef TENSORFLOW_LITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_H_
#define TENSORFLOW_LITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_H_

#include "../../c/common.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { kExternalDelegateMaxOptions = 256 };
typedef struct TfLiteExternalDelegateOptions {
  const char* lib_path;
  int count;
  const char* keys[kExternalDelegateMaxOptions];
  const char* values[kExternalDelegateMaxOptions];
  TfLiteStatus (*insert)(struct TfLiteExternalDelegateOptions* options, const char* key, const char* value);
} TfLiteExternalDelegateOptions;

TFL_CAPI_EXPORT TfLiteStatus TfLiteExternalDelegateOptionsInsert(TfLiteExternalDelegateOptions* options,
                                                                 const char* key, const char* value);
TFL_CAPI_EXPORT TfLiteExternalDelegateOptions TfLiteExternalDelegateOptionsDefault(const char* lib_path);
// Null where the library cannot be loaded or refuses the options; standard error says why.
TFL_CAPI_EXPORT TfLiteDelegate* TfLiteExternalDelegateCreate(const TfLiteExternalDelegateOptions* options);
TFL_CAPI_EXPORT void TfLiteExternalDelegateDelete(TfLiteDelegate* delegate);

#ifdef __cplusplus
}
#endif
#endif
