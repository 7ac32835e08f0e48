// Definitions of ops behind an opaque type.  Link with nothing: pylite provides these functions when the plug-in loads.
#ifndef TENSORFLOW_LITE_CORE_C_OPERATOR_H_
#define TENSORFLOW_LITE_CORE_C_OPERATOR_H_

#include "../builtin_ops.h"
#include "c_api_types.h"
#include "common.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- As since 2024 ----

// builtin_code: kTfLiteBuiltinCustom with a name, or a builtin op's with null.  The caller owns the result; it must
// live as long as any interpreter that uses it.  user_data: given to the callbacks set with Set...WithData.
TFL_CAPI_EXPORT TfLiteOperator* TfLiteOperatorCreate(TfLiteBuiltinOperator builtin_code, const char* custom_name,
                                                     int version, void* user_data);
TFL_CAPI_EXPORT void TfLiteOperatorDelete(TfLiteOperator* op);

TFL_CAPI_EXPORT TfLiteBuiltinOperator TfLiteOperatorGetBuiltInCode(const TfLiteOperator* op);
TFL_CAPI_EXPORT const char* TfLiteOperatorGetCustomName(const TfLiteOperator* op);
TFL_CAPI_EXPORT int TfLiteOperatorGetVersion(const TfLiteOperator* op);
TFL_CAPI_EXPORT void* TfLiteOperatorGetUserData(const TfLiteOperator* op);

TFL_CAPI_EXPORT void TfLiteOperatorSetInit(TfLiteOperator* op,
                                           void* (*init)(TfLiteOpaqueContext*, const char* buffer, size_t length));
TFL_CAPI_EXPORT void TfLiteOperatorSetFree(TfLiteOperator* op, void (*free)(TfLiteOpaqueContext*, void* data));
TFL_CAPI_EXPORT void TfLiteOperatorSetPrepare(TfLiteOperator* op,
                                              TfLiteStatus (*prepare)(TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT void TfLiteOperatorSetInvoke(TfLiteOperator* op,
                                             TfLiteStatus (*invoke)(TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT void TfLiteOperatorSetAsyncKernel(
    TfLiteOperator* op, struct TfLiteAsyncKernel* (*async_kernel)(TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT void TfLiteOperatorSetInplaceOperator(TfLiteOperator* op, uint64_t inplace_operator);

TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetInitWithData(
    TfLiteOperator* op, void* (*init)(void* user_data, TfLiteOpaqueContext*, const char* buffer, size_t length));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetFreeWithData(
    TfLiteOperator* op, void (*free)(void* user_data, TfLiteOpaqueContext*, void* data));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetPrepareWithData(
    TfLiteOperator* op, TfLiteStatus (*prepare)(void* user_data, TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetInvokeWithData(
    TfLiteOperator* op, TfLiteStatus (*invoke)(void* user_data, TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT TfLiteStatus TfLiteOperatorSetAsyncKernelWithData(
    TfLiteOperator* op,
    struct TfLiteAsyncKernel* (*async_kernel)(void* user_data, TfLiteOpaqueContext*, TfLiteOpaqueNode*));

// ---- The same under the names of 2022 to 2024 ----

TFL_CAPI_EXPORT TfLiteRegistrationExternal* TfLiteRegistrationExternalCreate(TfLiteBuiltinOperator builtin_code,
                                                                             const char* custom_name, int version);
TFL_CAPI_EXPORT void TfLiteRegistrationExternalDelete(TfLiteRegistrationExternal* op);
TFL_CAPI_EXPORT TfLiteBuiltinOperator TfLiteRegistrationExternalGetBuiltInCode(const TfLiteRegistrationExternal* op);
TFL_CAPI_EXPORT const char* TfLiteRegistrationExternalGetCustomName(const TfLiteRegistrationExternal* op);
TFL_CAPI_EXPORT int TfLiteRegistrationExternalGetVersion(const TfLiteRegistrationExternal* op);
TFL_CAPI_EXPORT void TfLiteRegistrationExternalSetInit(
    TfLiteRegistrationExternal* op, void* (*init)(TfLiteOpaqueContext*, const char* buffer, size_t length));
TFL_CAPI_EXPORT void TfLiteRegistrationExternalSetFree(TfLiteRegistrationExternal* op,
                                                       void (*free)(TfLiteOpaqueContext*, void* data));
TFL_CAPI_EXPORT void TfLiteRegistrationExternalSetPrepare(
    TfLiteRegistrationExternal* op, TfLiteStatus (*prepare)(TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT void TfLiteRegistrationExternalSetInvoke(
    TfLiteRegistrationExternal* op, TfLiteStatus (*invoke)(TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT void TfLiteRegistrationExternalSetAsyncKernel(
    TfLiteRegistrationExternal* op, struct TfLiteAsyncKernel* (*async_kernel)(TfLiteOpaqueContext*, TfLiteOpaqueNode*));
TFL_CAPI_EXPORT void TfLiteRegistrationExternalSetInplaceOperator(TfLiteRegistrationExternal* op,
                                                                  uint64_t inplace_operator);

#ifdef __cplusplus
}
#endif
#endif
