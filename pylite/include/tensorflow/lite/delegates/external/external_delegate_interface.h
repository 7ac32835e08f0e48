// The two functions that the shared library of a delegate exports.
#ifndef TENSORFLOW_LITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_INTERFACE_H_
#define TENSORFLOW_LITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_INTERFACE_H_

#include <stddef.h>

#include "../../c/common.h"

#ifdef __cplusplus
extern "C" {
#endif

// options: num_options keys and values, all strings.  On failure: say why with report_error and return null.
TFL_CAPI_EXPORT TfLiteDelegate* tflite_plugin_create_delegate(const char* const* options_keys,
                                                              const char* const* options_values, size_t num_options,
                                                              void (*report_error)(const char*));
TFL_CAPI_EXPORT void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate);

#ifdef __cplusplus
}
#endif
#endif
